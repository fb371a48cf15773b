"""The `replay` gate: the trusted side drives `run` over recorded cases, those of the package and those held out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from instar.sandbox.folds import Fold
from instar.sandbox.gates.candidate import Candidate
from instar.sandbox.gates.judgement import Judgement, failed, incomplete, passed
from instar.sandbox.gates.play import CASE_LIMITS, Outcome, Played, Turn, play_all
from instar.sandbox.gates.policy import policy
from instar.sandbox.protocol import Limits, Sandbox
from instar.sandbox.report import Finding, Verdict
from instar.skills.errors import ManifestRefused, PackageRefused
from instar.skills.package import Package, parse_manifest

MAX_HELD_OUT = 300
"""Hold-outs beyond this many are not played; the counts say so."""


def replay(candidate: Candidate, folds: Sequence[Fold], sandbox: Sandbox, limits: Limits = CASE_LIMITS) -> Judgement:
    """Every case of the package exactly; of the hold-outs none wrong and, where there are any, at least one exact.

    Raises:
        SandboxUnavailable, SandboxFailed, InvalidJob: nothing is known about the draft.
    """
    own = [Turn(candidate.files, candidate.grants, case, candidate.libraries) for case in candidate.cases.values()]
    held_out, findings, unclear = _held_out(folds, candidate.libraries)
    skipped = max(0, len(held_out) - MAX_HELD_OUT)
    played = list(play_all(sandbox, [*own, *held_out[:MAX_HELD_OUT]], limits))
    mine, theirs = played[: len(own)], played[len(own) :]
    findings += [
        _finding(path, one)
        for path, one in zip(candidate.cases, mine, strict=True)
        if one.outcome is not Outcome.EXACT
    ]
    findings += [_finding(f"hold-out {one.case.name}", one) for one in theirs if one.outcome is not Outcome.EXACT]
    tally = _count(theirs)
    empty = sum(len(fold.cases) for fold in folds if not fold.files)
    counts = {
        "cases": len(mine),
        "cases_exact": _count(mine)[Outcome.EXACT],
        "folds": len(folds),
        "exact": tally[Outcome.EXACT],
        "uncovered": tally[Outcome.UNCOVERED] + empty,
        "wrong": tally[Outcome.WRONG],
        "not_played": skipped,
    }
    return _verdict(counts, findings, unclear, has_folds=bool(folds))


def _verdict(
    counts: dict[str, int], findings: list[Finding], unclear: list[Finding], *, has_folds: bool
) -> Judgement:
    said = f"{counts['cases_exact']} of {counts['cases']} cases exact"
    if has_folds:
        said += f"; held out: {counts['exact']} exact, {counts['uncovered']} uncovered, {counts['wrong']} wrong"
    refused = [finding for finding in findings if finding.rule == "fold"]
    reason = ""
    if counts["cases"] == 0:
        reason = "the package has no case"
    elif counts["cases_exact"] < counts["cases"] or counts["wrong"]:
        reason = said
    elif refused:
        reason = refused[0].message
    elif has_folds and counts["exact"] == 0 and not unclear:
        reason = f"{said}: nothing shows that it works on a task it has not seen"
    if reason:
        return failed(reason, [*findings, *unclear], counts)
    if unclear:
        return incomplete(unclear[0].message, [*findings, *unclear], counts)
    return passed(said, findings, counts)


def _held_out(folds: Sequence[Fold], libraries: Sequence[Path]) -> tuple[list[Turn], list[Finding], list[Finding]]:
    """The turns of all folds, why folds are refused, and why they cannot be judged."""
    turns: list[Turn] = []
    refused: list[Finding] = []
    unclear: list[Finding] = []
    for fold in folds:
        if not fold.files:
            continue  # the engine had no plan left without this task
        where = f"hold-out {fold.task}"
        try:
            files = Package(fold.files)
            manifest = parse_manifest(files)
        except (PackageRefused, ManifestRefused) as error:
            refused.append(
                Finding(message=f"the fold is no package: {error}", file=where, rule="fold", severity="high")
            )
            continue
        checked = policy(files, manifest)
        if checked.verdict is Verdict.FAIL:
            refused.append(
                Finding(
                    message=f"the fold's code is refused: {checked.summary}", file=where, rule="fold", severity="high"
                )
            )
        elif checked.verdict is Verdict.INCOMPLETE:
            unclear.append(
                Finding(message=f"the fold cannot be judged: {checked.summary}", file=where, rule="fold-unclear")
            )
        else:
            grants = {tool.name: tool for tool in manifest.tools}
            turns += [Turn(files, grants, case, libraries) for case in fold.cases]
    return turns, refused, unclear


def _finding(where: str, played: Played) -> Finding:
    return Finding(
        message=f"{played.outcome}: {played.reason}",
        file=where,
        rule=f"replay-{played.outcome}",
        severity="info" if played.outcome is Outcome.UNCOVERED else "high",
    )


def _count(played: Sequence[Played]) -> Counter[Outcome]:
    return Counter(one.outcome for one in played)
