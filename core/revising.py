"""A draft that was sent back: the engine gets the comment, and what it makes of it is a new review.

Nothing is offered again unchanged: where the engine has no other draft, that is the answer, and it is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, JsonValue

from instar.core import records
from instar.core.build import Built, build, judge_draft
from instar.core.errors import InstarError, NotEvaluated, NotFound
from instar.core.learn import window
from instar.core.progress import report as progress
from instar.core.review_pages import DecisionKind, Review, decision_of, documents_of, proposal_of
from instar.core.reviews import get_review
from instar.core.runtime import Runtime
from instar.engine.compiler.revise import HINT
from instar.engine.documents import Prd, Proposal, Window
from instar.engine.errors import EngineError
from instar.memstore import PageDraft, PageType, Provenance, Rejected
from instar.prompts import render
from instar.sandbox.report import Finding, GateReport, GateResult, Verdict

REVISE_HINT = HINT
"""What a reviewer may ask for, where no model reads the comment."""


@runtime_checkable
class Revises(Protocol):
    """An engine that can answer reviewers with another requirement."""

    def revise(self, proposal: Proposal, window: Window, comments: Sequence[str]) -> Prd | None:
        """The requirement as they asked for it; None where it does not know what to do."""
        ...


class Revision(BaseModel):
    """What became of a draft that was sent back."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    review: str
    answer: str = ""
    """The new review; empty where there is none."""
    said: str
    """What was done, or why nothing was."""


def revision_of(rt: Runtime, review_id: str) -> Revision | None:
    """The answer to a review that was sent back; None while there is none."""
    page = rt.store.get(rt.principal, f"{records.REVISION}-{review_id}")
    return None if page is None else Revision.model_validate(page.content)


def waiting_revisions(rt: Runtime) -> list[str]:
    """The reviews that were sent back and wait for the engine, the oldest first."""
    pages = rt.store.find(rt.principal, scope=rt.settings.scope, kind=records.DECISION)
    sent_back = [str(page.content["review"]) for page in pages if page.content["kind"] == DecisionKind.REVISE.value]
    return [review_id for review_id in sent_back if revision_of(rt, review_id) is None]


def revise(rt: Runtime, review_id: str) -> Revision:
    """Give the comment to the engine, judge what it writes, and open its review; once for each review.

    Raises:
        NotFound: there is no such review, it was not sent back, or its documents are gone.
        PartMissing: there is no sandbox; nothing was judged.
    """
    review = get_review(rt, review_id)
    if review.decision is None or review.decision.kind is not DecisionKind.REVISE:
        raise NotFound(
            f"Review {review.id} was not sent back", f"`instar review show {review.id}` shows where it stands"
        )
    kept = revision_of(rt, review.id)
    if kept is not None:
        return kept
    progress("revise", note=review.skill)
    try:
        revision = _revised(rt, review)
    except (EngineError, NotEvaluated) as error:
        revision = Revision(review=review.id, said=f"The engine has no other draft: {error}")
    content: dict[str, JsonValue] = revision.model_dump(mode="json")
    page = PageDraft(
        id=f"{records.REVISION}-{review.id}",
        kind=records.REVISION,
        type=PageType.EVIDENCE,
        content=content,
        provenance=Provenance(source="revise", references=(f"{records.DECISION}-{review.id}",)),
        tags=(f"skill:{review.skill}",),
        parent=review.id,
    )
    try:
        with rt.store.writeback(rt.principal, scope=rt.settings.scope) as batch:
            batch.append(page)
    except Rejected:
        first = revision_of(rt, review.id)  # another process answered at this moment
        if first is None:
            raise
        return first
    return revision


def _revised(rt: Runtime, review: Review) -> Revision:
    draft, prd, report = documents_of(rt, review)
    comments = _comments(rt, review)
    proposal = proposal_of(rt, review, prd)
    engine = rt.engine
    if isinstance(engine, Revises) and proposal is not None:
        other = engine.revise(proposal, window(rt, rt.settings.scope, project=proposal.project), comments)
        if other is not None:
            text = render("prd.md.j2", prd=other)
            with rt.store.writeback(rt.principal, scope=rt.settings.scope) as batch:
                batch.append(records.document_draft(other, records.PRD, text=text, parent=proposal.id))
            return _answer(review, build(rt, other.id, revises=review.id))
    repaired = engine.repair(draft, _complaint(report, comments))
    if repaired is None:
        said = "The engine did not understand the comment, or has no other draft; the comment is kept as evidence"
        return Revision(review=review.id, said=said)
    return _answer(review, judge_draft(rt, repaired, prd, revises=review.id))


def _answer(review: Review, built: Built) -> Revision:
    if built.digest == review.digest:
        return Revision(review=review.id, said="The engine wrote the same draft again; it is not offered twice")
    if not built.review:
        failed = ", ".join(result.gate for result in built.report.results if result.verdict is not Verdict.PASS)
        return Revision(review=review.id, said=f"The new draft did not pass its gates: {failed}")
    if built.decided:
        return Revision(review=review.id, said=f"The new draft was decided before: {built.decided}")
    return Revision(review=review.id, answer=built.review, said="A new draft waits for review")


def _comments(rt: Runtime, review: Review) -> list[str]:
    """What reviewers said, the first first: a second remark does not undo what the first asked for."""
    said: list[str] = []
    current: Review | None = review
    while current is not None:
        decision = decision_of(rt, current.id)
        if decision is not None:
            said.insert(0, decision.comment)
        try:
            current = get_review(rt, current.revises) if current.revises else None
        except InstarError:
            current = None
    return said


def _complaint(report: GateReport, comments: Sequence[str]) -> GateReport:
    """The reviewers' remarks in the shape in which an engine is told of failed gates."""
    findings = [Finding(severity="high", message=comment) for comment in comments]
    complaint = GateResult(
        gate="review", verdict=Verdict.FAIL, summary="a reviewer sent it back", seconds=0, findings=findings
    )
    return report.model_copy(update={"results": [*report.results, complaint]})
