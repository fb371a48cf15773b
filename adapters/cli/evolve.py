"""`instar evolve` and its single steps: ingest, reflect, build."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.prompt import Confirm, Prompt

from instar.adapters.cli import render
from instar.adapters.cli.options import AsJson, flags_of, opened, settings_of
from instar.adapters.cli.output import console, emit_json, progress_shown, safe
from instar.core import build as building
from instar.core import ingest as ingesting
from instar.core import learn
from instar.core.drain import drain
from instar.core.errors import SourceMissing
from instar.core.preflight import preflight
from instar.core.reviews import DecisionKind, ReviewState, decide, documents_of, get_review
from instar.core.runtime import runtime
from instar.core.settings import Settings
from instar.core.sources import ingest_sources
from instar.core.spool import folder_of, waiting
from instar.flows.errors import PrefectRefused
from instar.flows.review_runs import end_run
from instar.sandbox.report import Verdict

Paths = Annotated[
    list[Path], typer.Argument(help="Files or folders with agent sessions.", show_default=False, readable=False)
]
Sources = Annotated[
    list[Path] | None,
    typer.Argument(
        help="Files or folders with agent sessions; without any, the sources of instar.toml.",
        show_default=False,
        readable=False,
    ),
]
UNREADABLE = 3
"""Exit code when nothing that was named could be read."""

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done; change nothing.")]
Tools = Annotated[
    Path | None, typer.Option("--tools", readable=False, help="tools.toml: how real tools are reached.")
]
Engine = Annotated[
    str | None,
    typer.Option("--engine", help="compiler, model, hybrid, or auto: hybrid where a model endpoint is configured."),
]
Record = Annotated[
    Path | None, typer.Option("--record", readable=False, help="Keep what models answer in this folder.")
]
Replay = Annotated[
    Path | None, typer.Option("--replay", readable=False, help="Take every answer from this folder; ask no model.")
]
Headless = Annotated[bool, typer.Option("--include-headless", help="Also learn from headless sessions.")]
Subagents = Annotated[bool, typer.Option("--include-subagents", help="Also learn from sub-agents' sessions.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(evolve)
    app.command()(night)
    app.command()(ingest)
    app.command()(reflect)
    app.command()(build)


def evolve(
    context: typer.Context,
    paths: Paths,
    tools: Tools = None,
    dry_run: DryRun = False,
    proposals: Annotated[int | None, typer.Option("--proposals", min=1, help="At most so many proposals.")] = None,
    include_headless: Headless = False,
    include_subagents: Subagents = False,
    engine: Engine = None,
    record: Record = None,
    replay: Replay = None,
    as_json: AsJson = False,
) -> int:
    """Learn from sessions: read them, find what recurs, build and test skills, leave each for review.

    Reading the same sessions again adds nothing. Nothing becomes active without an approval: on a terminal you are
    asked right away; otherwise `instar review list` shows what waits.
    """
    more = {
        "tools": tools,
        "proposals": proposals,
        "include_headless": include_headless or None,
        "include_subagents": include_subagents or None,
        "engine": engine,
        "record": record and record.absolute(),
        "replay": replay and replay.absolute(),
    }
    settings = settings_of(context, **more)
    preflight(settings, paths, dry_run=dry_run)
    if dry_run:
        return _dry_run(settings, paths, as_json=as_json)
    options = flags_of(context) | {
        name: value if isinstance(value, int) else str(value) for name, value in more.items() if value is not None
    }
    # Prefect reads its environment when it is imported, so the flow is imported only once that is set.
    from instar.flows.start import run_evolve  # noqa: PLC0415

    with progress_shown(quiet=as_json):
        evolved, place = run_evolve(settings, [str(path.absolute()) for path in paths], options)
    if as_json:
        emit_json({"server": place.server, "run": place.run, **evolved.model_dump(mode="json")})
        return _exit_code(
            [built.verdict for built in evolved.drafts],
            not_built=bool(evolved.not_built) or unreadable(evolved.ingest),
        )
    out = console()
    render.evolved(out, evolved, place, settings.tools)
    if sys.stdin.isatty() and out.is_terminal:
        for built in evolved.drafts:
            if built.review and not built.decided:
                _ask(settings, built.review)
    return _exit_code(
        [built.verdict for built in evolved.drafts], not_built=bool(evolved.not_built) or unreadable(evolved.ingest)
    )


def night(context: typer.Context, as_json: AsJson = False) -> int:
    """Do now what every night does: read the sources, reflect on what is new, build, and ask for reviews.

    A night that was cut off is continued. Where nothing changed since the last successful one, it says so.
    """
    settings = settings_of(context)
    preflight(settings, [], sandbox=False)
    # As above: the flow is imported once the environment is set.
    from instar.flows.start import run_night  # noqa: PLC0415

    with progress_shown(quiet=as_json):
        spent, place = run_night(settings, flags_of(context))
    if as_json:
        emit_json({**spent.model_dump(mode="json"), "server": place.server, "run": place.run})
    else:
        render.night(console(), spent, place, sources=bool(settings.sources))
    return 3 if spent.not_built else 0


def ingest(context: typer.Context, paths: Sources = None, dry_run: DryRun = False, as_json: AsJson = False) -> int:
    """Read sessions into the store, and nothing more.

    Without paths it reads what is new in the sources of instar.toml, and leaves alone what it read before. What
    recorded agents left in the spool is stored in any case.
    """
    settings = settings_of(context)
    if not paths and not settings.sources and not waiting(folder_of(str(settings.home))).files:
        raise SourceMissing("No path was named and no source is configured", "Name a path, or add [[sources]]")
    preflight(settings, paths or [], sandbox=False, dry_run=dry_run)
    with runtime(settings, dry_run=dry_run) as rt, progress_shown(quiet=as_json):
        if not dry_run:
            drain(rt)
        report = ingesting.ingest(rt, paths) if paths else ingest_sources(rt)
    if as_json:
        emit_json(report)
    else:
        render.funnel(console(), report)
        if dry_run:
            console().print("Dry run: nothing was written.")
    return UNREADABLE if unreadable(report) else 0


def reflect(context: typer.Context, as_json: AsJson = False) -> int:
    """Distil what is stored, find what recurs in it, and propose; builds nothing."""
    with opened(context) as rt, progress_shown(quiet=as_json):
        learn.distill(rt)
        reflection = learn.reflect(rt)
    if as_json:
        emit_json(reflection)
    else:
        render.reflection(console(), reflection)
    return 0


def build(
    context: typer.Context,
    proposal: Annotated[str, typer.Argument(help="Page id of a proposal (`instar reflect` shows them).")],
    as_json: AsJson = False,
) -> int:
    """Write the requirement and a draft for one proposal, run the gates, open a review."""
    with opened(context) as rt, progress_shown(quiet=as_json):
        prd = learn.specify(rt, proposal)
        built = building.build(rt, prd.id)
    if as_json:
        emit_json(built)
    else:
        render.draft(console(), built)
    return _exit_code([built.verdict])


def _dry_run(settings: Settings, paths: list[Path], *, as_json: bool) -> int:
    with runtime(settings, dry_run=True) as rt, progress_shown(quiet=as_json):
        report = ingesting.ingest(rt, paths)
        learn.distill(rt)
        reflection = learn.reflect(rt)
    if as_json:
        emit_json({"dry_run": True, "ingest": report, "reflection": reflection})
        return UNREADABLE if unreadable(report) else 0
    out = console()
    render.funnel(out, report)
    render.reflection(out, reflection)
    out.print(f"\nDry run: {len(reflection.proposals)} drafts would be built and tested. Nothing was written.")
    return UNREADABLE if unreadable(report) else 0


def unreadable(report: ingesting.IngestReport) -> bool:
    """Whether there was something to read and not one session came of it: never to be taken for a quiet day."""
    return report.sessions == 0 and report.skipped > 0


def _exit_code(verdicts: list[Verdict], *, not_built: bool = False) -> int:
    if not_built or Verdict.INCOMPLETE in verdicts:
        return 3
    return 1 if Verdict.FAIL in verdicts else 0


def _ask(settings: Settings, review_id: str) -> None:
    """Show what a person needs, and take the decision on the terminal."""
    out = console()
    with runtime(settings) as rt:
        review = get_review(rt, review_id)
        if review.state is not ReviewState.PENDING:
            return
        draft, prd, report = documents_of(rt, review)
        render.for_decision(out, review, draft, prd, report)
        answer = Prompt.ask("Decide", choices=["approve", "reject", "revise", "later"], default="later", console=out)
        if answer == "later":
            return
        by = Prompt.ask("Your name", default=os.environ.get("USER", "reviewer"), console=out)
        comment = Prompt.ask("Comment", default="", console=out)
        confirmed = review.risk == "high" and Confirm.ask(
            "This skill is of high risk. Approve all the same?", default=False, console=out
        )
        decided = decide(rt, review.id, DecisionKind(answer), by=by, comment=comment, confirm_risk=confirmed)
        with suppress(PrefectRefused):  # then the worker ends the run that still asks
            end_run(rt, decided.id)
        out.print(f"{safe(decided.skill)} {decided.version}: {decided.state.value} {safe(decided.location)}")
