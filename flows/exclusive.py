"""One at a time in a home: a lock that the kernel releases when its holder ends, however it ends."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from instar.flows.daemon import POLL, PRIVATE
from instar.flows.errors import ServerBusy


@contextmanager
def alone(lock: Path, home: Path, timeout: float) -> Iterator[None]:
    """Keep other starts and stops of a home out.

    Raises:
        ServerBusy: another one did not end within `timeout` seconds.
        OSError: the lock file cannot be written.
    """
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, PRIVATE)
    deadline = time.monotonic() + timeout
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ServerBusy(home, timeout) from None
                time.sleep(POLL)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def only(lock: Path) -> Iterator[bool]:
    """Whether nobody else is inside such a block at this moment; then it is ours until the block ends.

    Raises:
        OSError: the lock file cannot be written.
    """
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, PRIVATE)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
