"""Run a skill: `run(tools, **arguments)` of `scripts/skill.py`, inside a sandbox, its tools behind the broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from instar.sandbox.broker import Broker
from instar.sandbox.jobs import RUNNER, WORK
from instar.sandbox.protocol import (
    DEFAULT_LIMITS,
    Ending,
    Job,
    JobResult,
    Limits,
    Raised,
    Returned,
    Sandbox,
)
from instar.skills.package import runtime_files

SCRIPT: Final = f"{WORK}/scripts/skill.py"


class RunStatus(StrEnum):
    """How a run of a skill ended."""

    RETURNED = "returned"
    RAISED = "raised"
    REFUSED = "refused"
    """It asked for a tool that is not granted, whatever it did afterwards."""
    ENDED = "ended"
    """It ended without returning: exited early, timed out, was killed, broke the protocol."""


@dataclass(frozen=True, slots=True)
class SkillRun:
    """One run. `value` is meaningful when RETURNED.

    `error` is the exception's message when RAISED, exactly as the skill gave it (`job.final` has its type and
    traceback), and otherwise one line that says what happened.
    """

    status: RunStatus
    value: JsonValue
    error: str
    job: JobResult


def run_skill(
    sandbox: Sandbox,
    files: Mapping[str, bytes],
    arguments: Mapping[str, JsonValue],
    broker: Broker,
    limits: Limits = DEFAULT_LIMITS,
    *,
    libraries: Sequence[Path] = (),
) -> SkillRun:
    """Run the skill in `files` once. The arguments take the place of the broker's opening.

    The package's tests are left out, whoever runs it: their cases hold answers, and a skill that could look for them
    could tell a gate from its use.

    Raises:
        InvalidJob, SandboxUnavailable, SandboxFailed: as `Sandbox.run`.
    """
    job = Job(
        files=runtime_files(files),
        argv=("python", RUNNER, SCRIPT),
        limits=limits,
        broker=replace(broker, opening=arguments),
        libraries=libraries,
    )
    return _read(sandbox.run(job))


def _read(job: JobResult) -> SkillRun:
    """A job's own word counts only when it ended by itself and kept to its grants."""
    if job.violations:
        return SkillRun(RunStatus.REFUSED, None, job.violations[0].error or "", job)
    if job.ending is not Ending.EXITED:
        return SkillRun(RunStatus.ENDED, None, f"{job.ending}: {job.reason}", job)
    match job.final:
        case Returned(value) if job.succeeded:
            return SkillRun(RunStatus.RETURNED, value, "", job)
        case Raised(_, message) if job.succeeded:
            return SkillRun(RunStatus.RAISED, None, message, job)
        case None:
            return SkillRun(RunStatus.ENDED, None, f"exited with {job.exit_code} without returning", job)
        case _:
            return SkillRun(RunStatus.ENDED, None, f"exited with {job.exit_code} after its last message", job)
