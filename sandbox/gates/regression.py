"""The `regression` gate: a new version still does what the version it replaces did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pydantic import JsonValue

from instar.sandbox.answers import Recorded
from instar.sandbox.broker import Broker
from instar.sandbox.gates.candidate import Candidate
from instar.sandbox.gates.judgement import Judgement, failed, incomplete, passed
from instar.sandbox.gates.play import CASE_LIMITS, Outcome, judge
from instar.sandbox.protocol import Returned, Sandbox
from instar.sandbox.report import Finding
from instar.sandbox.skillrun import SkillRun, run_skill
from instar.skills.cases import Case


def regression(candidate: Candidate, previous: Sequence[Case], sandbox: Sandbox) -> Judgement:
    """Every earlier case comes out as before, or with more than before; a call that nobody recorded is counted apart.

    Raises:
        SandboxUnavailable, SandboxFailed, InvalidJob: nothing is known about the draft.
    """
    if not previous:
        return passed("there is no earlier version", counts={"cases": 0})
    tally: Counter[Outcome] = Counter()
    findings = []
    for case in previous:
        run = run_skill(
            sandbox,
            candidate.files,
            case.arguments,
            Broker(candidate.grants, Recorded(case.calls)),
            CASE_LIMITS,
            libraries=candidate.libraries,
        )
        outcome, reason = _compare(case, run)
        tally[outcome] += 1
        if outcome is not Outcome.EXACT:
            findings.append(
                Finding(
                    message=f"{outcome}: {reason}",
                    file=f"earlier case {case.name}",
                    rule=f"regression-{outcome}",
                    severity="high" if outcome is Outcome.WRONG else "info",
                )
            )
    counts = {"cases": len(previous), **{outcome.value: tally[outcome] for outcome in Outcome}}
    still, uncovered = tally[Outcome.EXACT], tally[Outcome.UNCOVERED]
    if tally[Outcome.WRONG]:
        return failed(f"{tally[Outcome.WRONG]} of {len(previous)} earlier cases no longer come out", findings, counts)
    if not still:
        return incomplete(f"no earlier case could be played to its end: {findings[0].message}", findings, counts)
    return passed(f"{still} of {len(previous)} earlier cases still come out, {uncovered} uncovered", findings, counts)


def contains(new: JsonValue, old: JsonValue) -> bool:
    """Whether the new value holds the old one: equal, types kept, or an object with more keys."""
    if isinstance(new, dict) and isinstance(old, dict):
        return all(key in new and contains(new[key], value) for key, value in old.items())
    if isinstance(new, list) and isinstance(old, list):
        return len(new) == len(old) and all(map(contains, new, old))
    return type(new) is type(old) and new == old


def _compare(case: Case, run: SkillRun) -> tuple[Outcome, str]:
    outcome, reason = judge(case, run)
    final = run.job.final
    if (
        outcome is Outcome.WRONG
        and case.raises is None
        and isinstance(final, Returned)
        and contains(final.value, case.returns)
    ):
        return Outcome.EXACT, ""
    return outcome, reason
