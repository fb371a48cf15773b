"""How results look on a terminal. Every cell may hold a stranger's text and goes through `safe`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from instar.adapters.cli.output import program, safe, table
from instar.core.build import Built
from instar.core.ingest import IngestReport
from instar.core.lineage import CODE, Lineage
from instar.core.maintained import MaintainReport
from instar.core.night import Night, NightState
from instar.core.reviews import Review
from instar.engine.documents import Draft, Prd, Proposal, Reflection
from instar.prompts import render as template
from instar.sandbox.report import GateReport, Verdict

if TYPE_CHECKING:
    from instar.flows.evolve import Evolved
    from instar.flows.start import Place

SHOWN = 8
FINDINGS = 200
"""Of one gate: a reviewer reads all of them, and a recipe's list every command."""
PLACES = 3
_STYLE = {Verdict.PASS: "green", Verdict.FAIL: "red", Verdict.INCOMPLETE: "yellow"}


def evolved(out: Console, result: Evolved, place: Place, tools: Path | None) -> None:
    """The whole chain, from the funnel to where the reviews wait."""
    funnel(out, result.ingest)
    kinds = ", ".join(f"{count} {kind}" for kind, count in result.distill.kinds.items())
    line(out, f"\nMemories: {result.distill.memories} new from {result.distill.sessions} sessions" + _of(kinds))
    reflection(out, result.reflection)
    for built in result.drafts:
        draft(out, built)
    for skill, reason in result.not_built.items():
        line(out, f"\nCould not be evaluated: {skill}: {reason}", style="yellow")
    if result.drafts:
        line(out, f"\nIsolation in force: {', '.join(result.drafts[0].report.isolation)}")
    passed = [(built, prd) for built, prd in zip(result.drafts, result.requirements, strict=True) if built.review]
    waiting = [(built, prd) for built, prd in passed if not built.decided]
    out.print()
    for built, _ in passed:
        if built.decided:
            line(out, f"Decided before: {built.review}: {built.decided}")
    for built, prd in waiting:
        line(out, f"Review waits: {built.review}", style="bold")
        if where := result.asked.get(built.review):
            line(out, f"  {where}")
        line(out, f"  {program()} review show {built.review}")
        line(out, f"  {program()} review approve {built.review} --by YOUR-NAME")
        line(out, f"  {_run_command(built.skill, prd, tools)}")
    if not waiting:
        line(out, "No draft waits for review.")
    line(out, f"\nRun: {place.run}\nThe Prefect server at {place.server} keeps running; `{program()} down` stops it.")


def night(out: Console, spent: Night, place: Place, *, sources: bool) -> None:
    """What a night did, or that there was nothing to do; `sources` says whether any is configured to be read."""
    line(out, f"Night {spent.number}: {spent.state.value}", style="bold")
    if spent.ingest is not None:
        funnel(out, spent.ingest)
    if spent.state is NightState.QUIET:
        line(out, "Quiet: nothing is new or changed since the last successful night.")
        if not sources:
            line(out, "No source is configured, so only what recorded agents left was looked at.", style="yellow")
            line(out, "Name what to read under [[sources]] in instar.toml, or read it once: instar ingest PATH")
    else:
        line(out, f"Reflected because of {spent.sessions} new or changed sessions: {spent.proposals} proposals")
    for each in spent.drafts:
        waits = (
            f"review {each.review}" + (f" ({each.decided})" if each.decided else "") if each.review else "no review"
        )
        line(out, f"  {each.skill} {each.version}: gates {each.verdict}; {waits}")
    for skill, reason in spent.not_built.items():
        line(out, f"  Could not be evaluated: {skill}: {reason}", style="yellow")
    if spent.maintenance is not None:
        maintenance(out, spent.maintenance)
    line(out, f"Run: {place.run}")


def maintenance(out: Console, done: MaintainReport) -> None:
    """What was forgotten and put in order, or would be."""
    line(out, "Maintenance, without changing anything" if done.dry_run else "Maintenance", style="bold")
    if done.failed:
        line(out, f"  Not done: {done.failed}", style="yellow")
        return
    old = f"{done.summaries} old sessions ({done.archived} pages) to one page each"
    line(out, f"  {done.expired} pages past their time, {old}")
    if not done.dry_run:
        line(
            out,
            f"  {done.compared} statements compared: {done.same} say what another says, {done.contradictions_found} "
            f"contradict an older one; {done.indexed} pages and {done.vectors} vectors in the index",
        )
    for found in done.contradictions:
        newer, _, older = found.partition(": ")
        line(out, f"  {newer} contradicts {older}")
    for reason in done.trouble:
        line(out, f"  Not complete: {reason}", style="yellow")


def funnel(out: Console, report: IngestReport) -> None:
    """From files to evidence, with what was left behind and why."""
    line(out, "Sessions", style="bold")
    line(
        out,
        f"  {report.sessions} read: {report.new} new, {report.grown} grown, {report.revised} revised, "
        f"{report.unchanged} unchanged"
        + (f", {report.shorter} shorter than stored (kept)" if report.shorter else "")
        + (f"; {report.files_unchanged} files did not change" if report.files_unchanged else ""),
    )
    line(
        out,
        f"  {report.steps} steps, {report.calls} tool calls, {report.errors} errors, {report.refusals} refused by a "
        f"person, {report.redacted} secrets redacted",
    )
    if not report.sessions and report.skipped:
        line(out, "  Not one session could be read from what was named.", style="yellow")
    for title, counts in (("projects", report.projects), ("formats", report.formats), ("origins", report.origins)):
        line(out, f"  {title}: {_listed(counts)}")
    _skips(out, report)


def reflection(out: Console, report: Reflection) -> None:
    """What recurs, what fails, what is proposed and what is not."""
    left = f"; left out: {_listed(report.left_out)}" if report.left_out else ""
    line(out, f"\nReflection on {report.sessions} sessions, {report.tasks} tasks, {report.calls} calls{left}")
    if report.patterns:
        rows = [
            (p.title, p.project, p.support.sessions, p.support.tasks, f"{p.turns_saved:.1f}")
            for p in report.patterns[:SHOWN]
        ]
        columns = ("recurring pattern", "project", "sessions", "tasks", "turns saved each")
        out.print(table("Patterns", columns, rows, numeric=(2, 3, 4)))
    if report.failure_clusters:
        shown = report.failure_clusters[:SHOWN]
        failures = [(f.tool, f.signature[:60], f.support.calls, f.recovered, f.lesson) for f in shown]
        out.print(table("Failures", ("tool", "error", "seen", "recovered", "lesson"), failures, numeric=(2, 3)))
    if report.commands:
        recurring = [
            (c.category, c.command, c.support.sessions, f"{c.succeeded}/{c.support.calls}")
            for c in report.commands[:SHOWN]
        ]
        out.print(table("Commands", ("kind", "command", "sessions", "succeeded"), recurring, numeric=(2, 3)))
    for proposal in report.proposals:
        _proposal(out, proposal)
    if report.abstentions:
        line(out, "Not proposed:")
        for abstention in report.abstentions[:SHOWN]:
            line(out, f"  {abstention.what}: {abstention.reason}")
    if not report.proposals:
        line(out, "Nothing to propose: no pattern has enough support.")


def draft(out: Console, built: Built) -> None:
    """A draft with its gates and their times."""
    out.print()
    line(out, f"Draft {built.skill} {built.version}  {built.digest[:19]}…", style="bold")
    gates(out, built.report)
    if built.verdict is Verdict.INCOMPLETE:
        line(out, "  Could not be evaluated; this is not a rejection. Running again evaluates it anew.")


def gates(out: Console, report: GateReport) -> None:
    """The gate table, then every finding that speaks against the draft."""
    rows: list[Sequence[object]] = [
        (r.gate, Text(r.verdict.value, style=_STYLE[r.verdict]), f"{r.seconds:.2f} s", r.summary)
        for r in report.results
    ]
    out.print(table("", ("gate", "verdict", "time", ""), rows, numeric=(2,)))
    for result in report.results:
        for finding in result.findings[:FINDINGS]:
            where = f"{finding.file}:{finding.line} " if finding.file else ""
            line(out, f"  {result.gate}: {where}{finding.message}")
        if len(result.findings) > FINDINGS:
            line(out, f"  {result.gate}: and {len(result.findings) - FINDINGS} more; --json shows all of them")
    line(out, f"  risk {report.risk}")


def for_decision(out: Console, review: Review, candidate: Draft, prd: Prd, report: GateReport) -> None:
    """Everything a person reads before deciding."""
    line(out, f"Review {review.id}: {review.state.value}", style="bold")
    line(out, f"{review.digest}   opened {review.opened_at}")
    if review.decision is not None:
        decision = review.decision
        line(out, f"decided: {decision.kind.value} by {decision.by} at {decision.at} {decision.comment}")
    out.print(safe(template("prd.md.j2", prd=prd)), markup=False)
    code = safe(candidate.files[CODE])
    line(out, CODE, style="bold")
    if out.is_terminal:
        out.print(Syntax(code, "python", line_numbers=True, word_wrap=True))
    else:
        out.print(code, markup=False, soft_wrap=True)
    gates(out, report)
    line(out, f"  isolation: {', '.join(report.isolation)}")


def lineage(out: Console, traced: Lineage) -> None:
    """From lines of code to session steps."""
    line(
        out, f"{traced.skill} {traced.version}  {traced.digest[:19]}…  approved by {traced.decided_by}", style="bold"
    )
    line(out, f"review {traced.review}\ndraft {traced.draft}\nrequirement {traced.prd}\nproposal {traced.proposal}")
    line(out, f"purpose: {traced.purpose}")
    for source in traced.lines:
        line(out, f"\n{source.file}:{source.first_line}-{source.last_line}  ({source.node})", style="bold")
        line(out, source.code)
        line(out, f"  rests on {source.evidence} session steps, for example:")
        for step in source.steps:
            line(out, f"    {step.page}  {step.source}  task {step.task}\n      {step.step}")
    if traced.memories:
        line(out, "\nMemories that cite these steps:", style="bold")
        for memory in traced.memories[:SHOWN]:
            line(out, f"  {memory.page}  {memory.statement}")
    line(out, f"\n{traced.sessions} sessions in all")


def line(out: Console, text: str, *, style: str = "") -> None:
    """One line of untrusted text."""
    out.print(Text(safe(text), style=style), soft_wrap=True)


def _run_command(skill: str, prd: Prd, tools: Path | None) -> str:
    """A command that works as it stands: with arguments that were really used."""
    used = next((case.arguments for fold in prd.folds for case in fold.cases if case.raises is None), {})
    words = [program(), "skills", "run", skill]
    if tools is not None:
        words += ["--tools", str(tools.relative_to(Path.cwd()) if tools.is_relative_to(Path.cwd()) else tools)]
    return shlex.join([*words, "--arguments", json.dumps(used, ensure_ascii=False)])


def _skips(out: Console, report: IngestReport) -> None:
    """What was not read: each reason once, with its count and the first places."""
    if not report.skipped:
        return
    line(out, f"  {report.skipped} skipped:")
    known = ""
    for reason, count in list(report.skip_reasons.items())[:SHOWN]:
        alike = [skip for skip in report.skips if skip.reason.startswith(reason)]
        said, _, formats = (alike[0].reason if alike else reason).partition("; known formats: ")
        known = known or formats
        line(out, f"    {count} × {said}")
        for skip in alike[:PLACES]:
            line(out, f"      {skip.source} {skip.position}")
        if count > PLACES:
            line(out, f"      … and {count - PLACES} more (--json lists the first {len(report.skips)})")
    if known:
        line(out, f"    known formats: {known}")


def _proposal(out: Console, proposal: Proposal) -> None:
    out.print()
    line(out, f"Proposal: {proposal.action.value} {proposal.skill} — {proposal.title}", style="bold")
    line(out, f"  {proposal.summary}")
    support = proposal.support
    line(
        out,
        f"  support: {support.sessions} sessions, {support.tasks} distinct tasks, {support.calls} calls; "
        f"would have saved {proposal.expected_turns_saved:.0f} turns",
    )
    for objection in proposal.against:
        line(out, f"  against: {objection}")
    line(out, f"  evidence: {', '.join(proposal.evidence[:3])}" + (" …" if len(proposal.evidence) > 3 else ""))


def _listed(counts: dict[str, int]) -> str:
    shown = [f"{name} {count}" for name, count in sorted(counts.items(), key=lambda item: -item[1])]
    return ", ".join(shown[:SHOWN]) + (" …" if len(shown) > SHOWN else "")


def _of(kinds: str) -> str:
    return f" ({kinds})" if kinds else ""
