"""Run a skill: `run(tools, **arguments)` of `scripts/skill.py`, inside a sandbox, its tools behind the broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pydantic import JsonValue

from instar.sandbox.broker import Broker
from instar.sandbox.protocol import DEFAULT_LIMITS, JobResult, Limits, Sandbox


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
    """One run. `value` is meaningful when RETURNED; `error` says in one line what happened otherwise."""

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
) -> SkillRun:
    """Run the skill in `files` once.

    Raises:
        InvalidJob, SandboxUnavailable, SandboxFailed: as `Sandbox.run`.
    """
    raise NotImplementedError
