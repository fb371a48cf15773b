"""A few places for all processes of a home: whoever calls a model takes one, and gives it back.

A place is a lock on a file, which the operating system gives back when its holder dies.
"""

from __future__ import annotations

import fcntl
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PAUSE = 0.05
"""Seconds between two looks for a free place."""


@dataclass(frozen=True, slots=True)
class Slots:
    """`count` places in `folder`, which is made when the first is taken."""

    folder: Path
    count: int
    sleep: Callable[[float], None] = time.sleep
    patience: float = math.inf
    """Seconds that one waits for a place."""

    @contextmanager
    def __call__(self) -> Iterator[int]:
        """Wait for a free place, hold it, and yield its number.

        Raises:
            TimeoutError: none became free in time.
        """
        end = time.monotonic() + self.patience
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            for number in range(self.count):
                with (self.folder / f"{number}.lock").open("a") as place:
                    try:
                        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except BlockingIOError:
                        continue
                    yield number
                    return
            if time.monotonic() >= end:
                raise TimeoutError(f"no place among {self.count} calls within {self.patience:g} s")
            self.sleep(PAUSE)
