"""What a gate says before the clock and its name are added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from instar.sandbox.report import Finding, Verdict


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict with its reasons. The summary is one sentence for a person."""

    verdict: Verdict
    summary: str
    findings: Sequence[Finding] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


def passed(summary: str, findings: Sequence[Finding] = (), counts: Mapping[str, int] | None = None) -> Judgement:
    """The gate was passed."""
    return Judgement(Verdict.PASS, summary, findings, counts or {})


def failed(summary: str, findings: Sequence[Finding] = (), counts: Mapping[str, int] | None = None) -> Judgement:
    """The draft is at fault."""
    return Judgement(Verdict.FAIL, summary, findings, counts or {})


def incomplete(summary: str, findings: Sequence[Finding] = (), counts: Mapping[str, int] | None = None) -> Judgement:
    """Nothing can be said: something else than the draft's merit is in the way."""
    return Judgement(Verdict.INCOMPLETE, summary, findings, counts or {})
