"""Play one recorded case through the sandbox and compare on the trusted side, types kept."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import JsonValue

from instar.sandbox.answers import Recorded
from instar.sandbox.broker import Broker
from instar.sandbox.gates.errors import OutOfTime
from instar.sandbox.protocol import CallStatus, Limits, Raised, Returned, Sandbox
from instar.sandbox.skillrun import RunStatus, SkillRun, run_skill
from instar.skills.cases import Case
from instar.skills.manifest import GrantedTool

CASE_LIMITS = Limits(wall_seconds=10.0, cpu_seconds=10)
GATE_SECONDS = 300.0
"""For all runs of one gate together."""


class Outcome(StrEnum):
    """What a replay showed."""

    EXACT = "exact"
    """Every call was recorded, and what came back equals the recording."""
    UNCOVERED = "uncovered"
    """It asked for a call that nobody recorded: neither right nor wrong."""
    WRONG = "wrong"
    """A call or a value contradicts the recording."""


@dataclass(frozen=True, slots=True)
class Played:
    """One case, what its replay showed, and why."""

    case: Case
    outcome: Outcome
    reason: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Turn:
    """A case to play with the package that has to answer it."""

    files: Mapping[str, bytes]
    grants: Mapping[str, GrantedTool]
    case: Case
    libraries: Sequence[Path] = ()


def play_all(
    sandbox: Sandbox, turns: Sequence[Turn], limits: Limits = CASE_LIMITS, seconds: float = GATE_SECONDS
) -> Iterator[Played]:
    """Play every turn, a few at a time, and give the results in order.

    Raises:
        OutOfTime: all together took more than `seconds`.
        SandboxUnavailable, SandboxFailed, InvalidJob: nothing is known about the draft.
    """
    started = time.monotonic()
    width = min(4, os.cpu_count() or 1)
    with ThreadPoolExecutor(max_workers=width) as pool:
        for start in range(0, len(turns), 4 * width):
            if time.monotonic() - started > seconds:
                raise OutOfTime(seconds, start, len(turns))
            yield from pool.map(lambda turn: play(sandbox, turn, limits), turns[start : start + 4 * width])


def play(sandbox: Sandbox, turn: Turn, limits: Limits = CASE_LIMITS) -> Played:
    """Play one turn.

    Raises:
        SandboxUnavailable, SandboxFailed, InvalidJob: nothing is known about the draft.
    """
    broker = Broker(turn.grants, Recorded(turn.case.calls))
    run = run_skill(sandbox, turn.files, turn.case.arguments, broker, limits, libraries=turn.libraries)
    outcome, reason = judge(turn.case, run)
    return Played(turn.case, outcome, reason, run.job.seconds)


def judge(case: Case, run: SkillRun) -> tuple[Outcome, str]:
    """Compare a run with its recording."""
    calls = run.job.calls
    refused = next((call for call in calls if call.status is CallStatus.REFUSED), None)
    invalid = next((call for call in calls if call.status is CallStatus.INVALID), None)
    uncovered = next((call for call in calls if call.status is CallStatus.UNCOVERED), None)
    if refused is not None:
        return Outcome.WRONG, f"called {refused.tool!r}, which was not granted"
    if invalid is not None:
        return Outcome.WRONG, f"called {invalid.tool!r} with unfit arguments: {invalid.error}"[:300]
    if uncovered is not None:
        return Outcome.UNCOVERED, f"nobody recorded {uncovered.tool}({brief(dict(uncovered.arguments))})"
    if run.status is RunStatus.ENDED or run.job.final is None:
        return Outcome.WRONG, f"ended without a result: {run.error}"[:300]
    contradiction = _contradiction(case, run.job.final)
    return (Outcome.WRONG, contradiction) if contradiction else (Outcome.EXACT, "")


def _contradiction(case: Case, final: Returned | Raised) -> str:
    """How the end of a run differs from the recorded one; nothing when it does not."""
    match final, case.raises:
        case Returned(value=value), None:
            equal = canonical(value) == canonical(case.returns)
            return "" if equal else f"returned {brief(value)} instead of {brief(case.returns)}"
        case Raised(message=message), str(expected):
            return "" if message == expected else f"raised {message[:100]!r} instead of {expected[:100]!r}"
        case Raised(type=kind, message=message), None:
            return f"raised {kind[:50]}: {message[:200]}"
        case _:
            return f"returned where the recording raised {str(case.raises)[:100]!r}"


def canonical(value: JsonValue) -> str:
    """Text that differs whenever two JSON values differ, in type as well: 1 is neither true nor 1.0."""
    return json.dumps(value, sort_keys=True, allow_nan=False)


def brief(value: JsonValue) -> str:
    """A value for a person, cut."""
    text = canonical(value)
    return text if len(text) <= 120 else text[:117] + "..."
