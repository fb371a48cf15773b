"""How long work tells what it is doing, without knowing who listens.

Whoever shows progress (the terminal, a test) installs a listener for its own context; work calls `report`. Outside
such a block nothing happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """One step forward: `done` of `total` (0: not known) in a stage, and a word about it."""

    stage: str
    done: int = 0
    total: int = 0
    note: str = ""


Listener = Callable[[Progress], None]
_listener: ContextVar[Listener | None] = ContextVar("instar_progress", default=None)


def report(stage: str, *, done: int = 0, total: int = 0, note: str = "") -> None:
    """Tell the listener of this context, if there is one."""
    listener = _listener.get()
    if listener is not None:
        listener(Progress(stage, done, total, note))


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Send every report made inside the block to `listener`."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
