"""`instar review`: what waits for a person, and the decision."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from instar.adapters.cli import render
from instar.adapters.cli.options import AsJson, opened
from instar.adapters.cli.output import console, emit_json, program, safe, table
from instar.core.reviews import DecisionKind, Review, ReviewState, decide, documents_of, get_review, list_reviews

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
    return 0


@app.command()
def show(context: typer.Context, review_id: ReviewId, as_json: AsJson = False) -> int:
    """Show everything to read before deciding: requirement, code, gates, and what speaks against it."""
    with opened(context) as rt:
        review = get_review(rt, review_id)
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
    return _shown(console(), decided, as_json=as_json)


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
    return _shown(console(), decided, as_json=as_json)


@app.command()
def revise(
    context: typer.Context,
    review_id: ReviewId,
    by: By,
    comment: Annotated[str, typer.Option("--comment", help="What to change.")],
    digest: Digest = "",
    as_json: AsJson = False,
) -> int:
    """Send a draft back with a comment, which is kept as evidence for later reflections."""
    with opened(context) as rt:
        decided = decide(rt, review_id, DecisionKind.REVISE, by=by, comment=comment, expect_digest=digest)
    return _shown(console(), decided, as_json=as_json)


def _shown(out: Console, review: Review, *, as_json: bool) -> int:
    if as_json:
        emit_json(review)
        return 0
    out.print(f"{safe(review.skill)} {review.version}: {review.state.value}", markup=False)
    if review.location:
        out.print(f"published to {safe(review.location)}", markup=False, soft_wrap=True)
        out.print(f"{program()} skills show {safe(review.skill)}   # what it takes and how to run it", markup=False)
    return 0
