"""A review as a run of its own: it shows the draft, waits for days, takes one answer, publishes what was approved.

On every resume the run starts from the top in a new process, so everything before the answer only reads. What decides
are the pages: a run that comes late, twice or out of order finds there what was decided.
"""

from __future__ import annotations

import logging
import os
from datetime import timedelta
from typing import Any, Literal

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.flow_runs import asuspend_flow_run
from prefect.input import RunInput
from prefect.logging import get_logger
from prefect.states import Completed, Failed
from pydantic import Field, ValidationError, create_model

from instar.core.dossier import dossier
from instar.core.errors import AlreadyDecided, ReviewRefused
from instar.core.refusals import refusals, refuse
from instar.core.review_pages import Review, ReviewState
from instar.core.reviews import COMMENT_LIMIT, NAME_LIMIT, DecisionKind, decide, get_review
from instar.core.revising import REVISE_HINT, revise
from instar.core.runtime import Runtime, runtime
from instar.core.settings import load_settings
from instar.flows.notify import Notice, notify
from instar.flows.review_runs import ENDS, GRACE_DAYS, open_review
from instar.prompts import render
from instar.tasks.artifacts import post_artifact


class ReviewForm(RunInput):
    """What a reviewer answers."""

    decision: Literal["approve", "reject", "revise"] = Field(title="Decision")
    reviewer: str = Field(title="Your name", min_length=1, max_length=NAME_LIMIT)
    comment: str = Field(default="", title="Comment", max_length=COMMENT_LIMIT, description="Needed to revise; kept.")
    digest: str = Field(title="Digest")


class HighRiskForm(ReviewForm):
    """What a reviewer answers about a skill of high risk."""

    confirm: str = Field(
        default="", title="Confirm", description="High risk: to approve, write the skill's name here."
    )


@flow(name="review", persist_result=True)
async def review(review_id: str, scope: str = "") -> State[str]:
    """Show what waits, ask for a decision until there is one, and carry it out.

    Raises:
        NotFound: there is no such review in this scope.
        SkillsError: it was approved, and the registry refuses it; the run fails and says why.
    """
    log = get_run_logger()
    with runtime(load_settings(os.environ, {"scope": scope} if scope else {})) as rt:
        while True:
            found = get_review(rt, review_id)
            if found.state is not ReviewState.PENDING:
                return _ended(rt, found)
            refused = refusals(rt, review_id)
            key = f"ask-{len(refused) + 1}"
            shown = "" if _asked(key) else await _show(rt, found, told=bool(refused))
            try:
                _take(rt, found, await _ask(rt, found, key, shown, refused[-1] if refused else ""))
            except AlreadyDecided as error:
                log.warning("%s", error)
                return Completed(name="DecidedBefore", message=f"This answer did not count. {error}")
            except (ReviewRefused, ValidationError) as error:
                said = str(error) if isinstance(error, ReviewRefused) else "It does not fit the form"
                log.warning("Asking again: %s", said)
                refuse(rt, review_id, said)


def form_for(found: Review, reviewers: tuple[str, ...]) -> type[ReviewForm]:
    """The form of one review: its digest filled in, and the allowed reviewers to choose from."""
    said = "The bytes that you read: leave it as it is."
    fields: dict[str, Any] = {"digest": (str, Field(default=found.digest, title="Digest", description=said))}
    if len(reviewers) == 1:
        fields["reviewer"] = (str, Field(default=reviewers[0], title="Your name"))
    elif reviewers:
        fields["reviewer"] = (Literal[reviewers], Field(title="Your name"))
    if found.action == "retire":
        fields["decision"] = (Literal["approve", "reject"], Field(title="Decision"))
    base = HighRiskForm if found.risk == "high" else ReviewForm
    return create_model("ReviewForm", __base__=base, **fields)


def _asked(key: str) -> bool:
    """Whether this run was suspended with this question before; then it was shown, and is being answered."""
    context = FlowRunContext.get()
    run = context.flow_run if context is not None else None
    return run is not None and key in (run.empirical_policy.pause_keys or set())


async def _show(rt: Runtime, found: Review, *, told: bool) -> str:
    """Put the whole review on the page of the run, tell those who want to know, and return where it is."""
    artifact = await post_artifact(found.id, dossier(rt, found), f"What to read before deciding about {found.skill}")
    place = os.environ.get("PREFECT_UI_URL", "")
    if not told:
        context = FlowRunContext.get()
        run = context.flow_run.id if context is not None and context.flow_run is not None else ""
        what = f"{found.skill} {found.version}" if found.action == "publish" else f"Retiring {found.skill}"
        await notify(
            rt.settings,
            Notice(
                subject=f"Instar: {what} waits for review",
                body=f"{found.title} (risk {found.risk}). It expires after {rt.settings.review_days} days.",
                link=f"{place}/runs/flow-run/{run}",
            ),
        )
    return f"{place}/artifacts/artifact/{artifact}"


async def _ask(rt: Runtime, found: Review, key: str, shown: str, refused: str) -> ReviewForm:
    """Suspend the run until it is answered. The time-out is Prefect's last resort; reviews expire before it."""
    description = render(
        "review_form.md.j2",
        review=found,
        title=found.title,
        refused=refused,
        hint="" if rt.settings.engine == "model" else REVISE_HINT,
        link=shown,
    )
    form = form_for(found, rt.settings.reviewers).with_initial_data(description=description)
    days = timedelta(days=rt.settings.review_days + GRACE_DAYS)
    get_logger("flow_runs").addFilter(_not_an_error)
    return await asuspend_flow_run(wait_for_input=form, timeout=int(days.total_seconds()), key=key)


def _not_an_error(record: logging.LogRecord) -> bool:
    """Prefect logs every suspension as an error, which it is not."""
    return not record.getMessage().startswith("Finished in state Suspended")


def _take(rt: Runtime, found: Review, answer: ReviewForm) -> None:
    decide(
        rt,
        found.id,
        DecisionKind(answer.decision),
        by=answer.reviewer,
        comment=answer.comment,
        confirm_risk=isinstance(answer, HighRiskForm) and answer.confirm.strip() == found.skill,
        expect_digest=answer.digest.strip() or "none",
        attested="ui",
    )


def _ended(rt: Runtime, found: Review) -> State[str]:
    """The end of a run, named after what became of the review."""
    if found.problem:
        return Failed(name="NotPublished", message=found.problem)
    decision = found.decision
    said = "" if decision is None else f"{decision.kind.value} by {decision.by} at {decision.at}"
    if found.state is ReviewState.REVISE:
        revision = revise(rt, found.id)
        where = open_review(rt, revision.answer) if revision.answer else ""
        said = f"{said}. {revision.said} {revision.answer} {where}".rstrip()
    elif found.state is ReviewState.PUBLISHED:
        said = f"{said}. Published to {found.location}; `instar skills show {found.skill}`"
    elif found.state is ReviewState.STALE:
        said = "The draft, its gate report or the skill changed since; the next night opens a new review"
    get_run_logger().info("%s", said or found.state.value)
    return Completed(name=ENDS[found.state], message=said)
