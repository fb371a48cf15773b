"""Run a flow against the server of a home, from a process that has not imported Prefect yet."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, cast

from instar.core.settings import Settings
from instar.flows.environment import adopt_environment
from instar.flows.server import Server, run_url

if TYPE_CHECKING:
    from instar.core.night import Night
    from instar.flows.evolve import Evolved


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run can be looked at."""

    server: str
    run: str


def run_evolve(
    settings: Settings, paths: Sequence[str], options: dict[str, str | int | bool]
) -> tuple[Evolved, Place]:
    """Start the server if none answers, run the flow, and say where it can be seen.

    Raises:
        FlowsError: there is no server, and none could be started.
        Whatever the work itself raises.
    """
    info = Server(settings.home).start()
    adopt_environment(settings.home, info.address)
    # Prefect is imported here and not before: it reads its environment once.
    from instar.flows.evolve import evolve  # noqa: PLC0415

    with _interruptible():
        result = asyncio.run(evolve(list(paths), settings.scope, dict(options)))
    return result, Place(info.address, run_url(info, result.run_id))


def run_night(settings: Settings, options: dict[str, str | int | bool]) -> tuple[Night, Place]:
    """Start the server if none answers, spend a night now, and say where it can be seen.

    Raises:
        FlowsError: there is no server, and none could be started.
        NightRunning: another one runs.
        NightFailed: it was given up; the message says why.
    """
    info = Server(settings.home).start()
    adopt_environment(settings.home, info.address)
    from instar.flows.nightly import nightly  # noqa: PLC0415 — see above

    with _interruptible():
        # Only a deployed run may come back with a state in its place.
        night = cast("Night", asyncio.run(nightly(options=dict(options))))
    return night, Place(info.address, run_url(info, night.run))


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C stop the work at once, where the event loop would only note it until the present task ends."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
