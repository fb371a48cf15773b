"""`instar review`: what waits for a person, and the decision."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from instar.adapters.cli import render
from instar.adapters.cli.options import AsJson, opened
from instar.adapters.cli.output import console, emit_json, program, progress_shown, safe, table
from instar.core.dossier import dossier
from instar.core.review_pages import proposal_of
from instar.core.reviews import DecisionKind, Review, ReviewState, decide, documents_of, get_review, list_reviews
from instar.core.revising import revise as engine_revises
from instar.core.runtime import Runtime
from instar.flows.errors import FlowsError
from instar.flows.review_runs import end_run, open_review

app = typer.Typer(no_args_is_help=True, help="Read drafts that passed every gate, and decide about them.")

ReviewId = Annotated[str, typer.Argument(help="A review's id, or an unambiguous beginning of it.")]
By = Annotated[str, typer.Option("--by", help="Who decides; recorded with the decision.")]
Comment = Annotated[str, typer.Option("--comment", help="Why; kept as evidence.")]
Digest = Annotated[
    str, typer.Option("--digest", help="Refuse unless the review is about exactly these bytes (sha256:…).")
]


@app.command("list")
def list_command(
    context: typer.Context,
    pending: Annotated[bool, typer.Option("--pending", help="Only those that wait for a decision.")] = False,
    as_json: AsJson = False,
) -> int:
    """Show all reviews, the newest first."""
    with opened(context) as rt:
        reviews = [r for r in list_reviews(rt) if not pending or r.state is ReviewState.PENDING]
    if as_json:
        emit_json(reviews)
        return 0
    out = console()
    if not reviews:
        out.print("No reviews. `instar evolve PATH…` opens one for each draft that passes its gates.")
        return 0
    rows = [(r.id, r.state.value, r.risk, r.opened_at, r.decision.by if r.decision else "") for r in reviews]
    out.print(table("", ("review", "state", "risk", "opened", "decided by"), rows))
    for review in reviews:
        if review.problem:
            out.print(f"{review.id} could not be carried out: {safe(review.problem)}", markup=False, soft_wrap=True)
    return 0


@app.command()
def show(context: typer.Context, review_id: ReviewId, as_json: AsJson = False) -> int:
    """Show everything to read before deciding: requirement, code, gates, and what speaks against it."""
    with opened(context) as rt:
        review = get_review(rt, review_id)
        if review.action == "retire":
            return _show_retirement(rt, review, as_json=as_json)
        draft, prd, report = documents_of(rt, review)
    if as_json:
        emit_json({"review": review, "prd": prd, "gates": report, "files": draft.files})
    else:
        render.for_decision(console(), review, draft, prd, report)
    return 0


@app.command()
def approve(
    context: typer.Context,
    review_id: ReviewId,
    by: By,
    comment: Comment = "",
    digest: Digest = "",
    confirm_risk: Annotated[bool, typer.Option("--confirm-risk", help="Needed for a draft of high risk.")] = False,
    as_json: AsJson = False,
) -> int:
    """Approve exactly these bytes, and publish them."""
    with opened(context) as rt:
        decided = decide(
            rt,
            review_id,
            DecisionKind.APPROVE,
            by=by,
            comment=comment,
            confirm_risk=confirm_risk,
            expect_digest=digest,
        )
        told = _tell_the_ui(rt, decided)
    return _shown(console(), decided, told, as_json=as_json)


@app.command()
def reject(
    context: typer.Context,
    review_id: ReviewId,
    by: By,
    comment: Comment = "",
    digest: Digest = "",
    as_json: AsJson = False,
) -> int:
    """Reject a draft. The decision is kept, and the same draft is not offered again."""
    with opened(context) as rt:
        decided = decide(rt, review_id, DecisionKind.REJECT, by=by, comment=comment, expect_digest=digest)
        told = _tell_the_ui(rt, decided)
    return _shown(console(), decided, told, as_json=as_json)


@app.command()
def revise(
    context: typer.Context,
    review_id: ReviewId,
    by: By,
    comment: Annotated[str, typer.Option("--comment", help="What to change.")],
    digest: Digest = "",
    as_json: AsJson = False,
) -> int:
    """Send a draft back to the engine; what it makes of the comment waits as a new review.

    Without a model the engine understands “leave out TOOL”, “rename to NAME”, “use when …” and “do not use when …”,
    one sentence for each. The rest is kept as an open question.
    """
    with opened(context) as rt, progress_shown(quiet=as_json):
        decided = decide(rt, review_id, DecisionKind.REVISE, by=by, comment=comment, expect_digest=digest)
        told = _tell_the_ui(rt, decided)
        revision = engine_revises(rt, decided.id)
        if revision.answer:
            told = _ask_in_the_ui(rt, revision.answer) or told
    if as_json:
        emit_json({"review": decided, "revision": revision})
        return 0
    out = console()
    _shown(out, decided, told, as_json=False)
    out.print(f"{safe(revision.said)} {safe(revision.answer)}".rstrip(), markup=False, soft_wrap=True)
    return 0


def _show_retirement(rt: Runtime, review: Review, *, as_json: bool) -> int:
    proposal = proposal_of(rt, review)
    if as_json:
        emit_json({"review": review, "proposal": proposal})
        return 0
    out = console()
    out.print(safe(dossier(rt, review)), markup=False)
    return 0


def _tell_the_ui(rt: Runtime, decided: Review) -> str:
    """End the run that asks the same in the UI. The decision stands whether or not the server can be told of it."""
    try:
        end_run(rt, decided.id)
    except FlowsError as error:
        return f"The run in the UI still asks, and will be told later: {error}"
    return ""


def _ask_in_the_ui(rt: Runtime, review_id: str) -> str:
    try:
        where = open_review(rt, review_id)
    except FlowsError as error:
        return f"It is not in the UI yet: {error}"
    return f"In the UI: {where}" if where else ""


def _shown(out: Console, review: Review, told: str, *, as_json: bool) -> int:
    if as_json:
        emit_json(review)
        return 0
    out.print(f"{safe(review.skill)} {review.version}: {review.state.value}", markup=False)
    if review.location:
        out.print(f"published to {safe(review.location)}", markup=False, soft_wrap=True)
        out.print(f"{program()} skills show {safe(review.skill)}   # what it takes and how to run it", markup=False)
    if told:
        out.print(safe(told), markup=False, soft_wrap=True)
    return 0
