"""Staying with what was started: for a service manager, which wants one process that lives as long as the service."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

from instar.flows.errors import FlowsError

CHECK = 20.0
"""Seconds between two looks."""


def stay(
    repair: Callable[[], None], end: Callable[[], None], tell: Callable[[str], None], *, check: float = CHECK
) -> int:
    """Repair what ended, every `check` seconds, until a signal comes; then end it all. Returns the exit code.

    `repair` starts what does not run and leaves alone what does. One that fails is told of and tried again at the
    next look: a disk that is full now need not be full in a minute.
    """
    told = threading.Event()

    def leave(number: int, frame: FrameType | None) -> None:
        told.set()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, leave)
    while not told.wait(check):
        try:
            repair()
        except FlowsError as error:
            tell(str(error))
    end()
    return 0
