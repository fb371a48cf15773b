"""Run the main flow against the server of a home, from a process that has not imported Prefect yet."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from instar.core.settings import Settings
from instar.flows.environment import adopt_environment
from instar.flows.server import Server, run_url

if TYPE_CHECKING:
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

    result = asyncio.run(evolve(list(paths), settings.scope, dict(options)))
    return result, Place(info.address, run_url(info, result.run_id))
