"""What the gates say about one draft. Computed on the trusted side, where the draft cannot reach it."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Verdict(StrEnum):
    """The three ends of a gate. INCOMPLETE blocks like FAIL, but is never shown as a rejection."""

    PASS = "pass"  # noqa: S105 — a verdict, not a password
    FAIL = "fail"
    INCOMPLETE = "incomplete"


class Finding(BaseModel):
    """One thing a gate saw, where, and what to do about it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    message: str
    file: str = ""
    line: int = Field(default=0, ge=0)
    rule: str = ""
    severity: Literal["info", "low", "elevated", "high"] = "info"


class GateResult(BaseModel):
    """One gate's verdict with its evidence."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    gate: str
    verdict: Verdict
    summary: str
    seconds: float = Field(ge=0)
    findings: list[Finding] = Field(default_factory=list)
    counts: dict[str, int] = Field(default_factory=dict)


class GateReport(BaseModel):
    """Every gate's result for exactly one digest, with the isolation that was really in force."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    skill: str
    version: str
    digest: str
    results: list[GateResult]
    risk: Literal["low", "elevated", "high"]
    isolation: list[str]
    tools: dict[str, str]
    """Versions of the tools that judged, for example {"ruff": "0.17.6"}."""

    @property
    def verdict(self) -> Verdict:
        """FAIL if any gate failed, otherwise INCOMPLETE if any could not be evaluated, otherwise PASS."""
        verdicts = {result.verdict for result in self.results}
        if Verdict.FAIL in verdicts:
            return Verdict.FAIL
        if Verdict.INCOMPLETE in verdicts or not self.results:
            return Verdict.INCOMPLETE
        return Verdict.PASS
