"""Where recorded calls of built-in tools led: the hosts and folders that a skill may be granted, and no other."""

from __future__ import annotations

from collections.abc import Sequence

from instar.engine.compiler.lessons import task_of
from instar.engine.session import ResultStatus, Session
from instar.sandbox.errors import ToolError
from instar.sandbox.reach import BUILT_IN, place_of

MIN_TASKS = 2
"""Distinct tasks in which a place must have answered: what one stranger named is not granted."""


def reach_of(tool: str, sessions: Sequence[Session]) -> list[str]:
    """The places of a built-in tool that answered in two tasks or more, sorted; none of any other tool."""
    tasks: dict[str, set[tuple[str, str]]] = {}
    for session in sessions if tool in BUILT_IN else ():
        for call, result in session.exchanges():
            if call.tool != tool or result is None or result.status is not ResultStatus.OK:
                continue
            try:
                place = place_of(tool, call.arguments.get(BUILT_IN[tool]))
            except ToolError:
                continue
            tasks.setdefault(place, set()).add(task_of(session))
    return sorted(place for place, seen in tasks.items() if len(seen) >= MIN_TASKS)
