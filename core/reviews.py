"""Reviews: one person's decision about one digest, recorded before anything is published."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from instar.core import records
from instar.core.errors import AlreadyDecided, NotFound, ReviewRefused, ReviewStale
from instar.core.publishing import finish, finish_or_say
from instar.core.review_pages import (
    Attested,
    Decision,
    DecisionKind,
    Review,
    ReviewState,
    decision_of,
    documents_of,
    read_review,
)
from instar.core.runtime import Runtime
from instar.memstore import PageDraft, PageType, Provenance, Rejected

__all__ = [
    "Decision",
    "DecisionKind",
    "Review",
    "ReviewState",
    "close",
    "comment_of",
    "decide",
    "documents_of",
    "expire",
    "get_review",
    "list_reviews",
    "may_decide",
    "record_decision",
]

CLOCK = "instar"
"""Who decides when nobody does."""
NAME_LIMIT, COMMENT_LIMIT = 100, 4000


def list_reviews(rt: Runtime) -> list[Review]:
    """All reviews, the newest first; an approval whose carrying out was interrupted is carried out on the way."""
    pages = rt.store.find(rt.principal, scope=rt.settings.scope, kind=records.REVIEW, newest_first=True)
    return [finish_or_say(rt, read_review(rt, page)) for page in pages]


def get_review(rt: Runtime, review_id: str) -> Review:
    """One review by its id or an unambiguous beginning of it.

    Raises:
        NotFound: no review, or several, begin with this.
    """
    page = rt.store.get(rt.principal, review_id)
    if page is not None and page.kind == records.REVIEW:
        return finish_or_say(rt, read_review(rt, page))
    matches = [review for review in list_reviews(rt) if review_id and review.id.startswith(review_id)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise NotFound(f"{review_id!r} begins several reviews", "They are: " + ", ".join(r.id for r in matches))
    raise NotFound(f"No review {review_id!r}", "`instar review list` shows what waits")


def decide(
    rt: Runtime,
    review_id: str,
    kind: DecisionKind,
    *,
    by: str,
    comment: str = "",
    confirm_risk: bool = False,
    expect_digest: str = "",
    attested: Attested = "cli",
) -> Review:
    """Record a decision and, when it approves, publish exactly those bytes (or retire the skill).

    The decision is stored first; a crash before the publication is made good by the next look at the review. Of two
    decisions at once one wins, and the other is told who was first.

    Raises:
        NotFound: there is no such review.
        ReviewStale: it, or the digest that was given, is about other bytes than are stored.
        AlreadyDecided: someone, or time, was first.
        ReviewRefused: the reviewer is not allowed, a high risk was not confirmed, or something is left out.
        SkillsError: the registry refuses the publication (the name belongs to another lineage).
    """
    review = get_review(rt, review_id)
    by, comment = may_decide(rt, by), comment_of(comment)
    if review.decision is not None:
        raise _already(review.id, review.decision)
    if review.state is ReviewState.STALE:
        raise ReviewStale(
            f"Review {review.id} is stale: its draft, gate report or skill changed", "`instar evolve` opens a new one"
        )
    if expect_digest and expect_digest != review.digest:
        raise ReviewStale(
            f"It is about {review.digest[:19]}…, not about {expect_digest[:19]}…: what you read is stale",
            "Read it again",
        )
    if kind is DecisionKind.REVISE and review.action == "retire":
        raise ReviewRefused("There is nothing to revise in a retirement", "Approve or reject it")
    if kind is DecisionKind.REVISE and not comment:
        raise ReviewRefused("To revise, the engine needs a comment", "Say in the comment what to change")
    if kind is DecisionKind.APPROVE and review.risk == "high" and not confirm_risk:
        raise ReviewRefused(
            f"{review.skill} is of high risk",
            "Read its findings, then confirm it: with --confirm-risk, or with its name in the form",
        )
    rt.step("decide")
    record_decision(rt, review, kind, by=by, comment=comment, attested=attested)
    page = rt.store.get(rt.principal, review.id)
    if page is None:
        raise NotFound(f"No review {review.id!r}", "`instar doctor` checks the store")
    return finish(rt, read_review(rt, page))


def expire(rt: Runtime, now: datetime | None = None) -> list[Review]:
    """End the reviews that waited for more than `review_days`; the same draft may be offered again."""
    limit = (now or datetime.now(UTC)) - timedelta(days=rt.settings.review_days)
    expired = []
    for review in list_reviews(rt):
        waits = review.state in (ReviewState.PENDING, ReviewState.STALE) and review.decision is None
        if waits and datetime.fromisoformat(review.opened_at) < limit:
            days = rt.settings.review_days
            try:
                close(rt, review, f"waited {days} days")
            except AlreadyDecided:
                continue  # a person was a moment faster
            expired.append(get_review(rt, review.id))
    return expired


def may_decide(rt: Runtime, by: str) -> str:
    """The name of who decides, without the spaces around it.

    Raises:
        ReviewRefused: it is no name, or not one of those that the settings allow.
    """
    name = by.strip()
    if not name:
        raise ReviewRefused("A decision needs a name", "Say who decides")
    if len(name) > NAME_LIMIT or not name.isprintable():
        raise ReviewRefused(f"{name[:NAME_LIMIT]!r} is no name", f"At most {NAME_LIMIT} printable characters")
    if rt.settings.reviewers and name not in rt.settings.reviewers:
        raise ReviewRefused(f"{name} may not decide here", f"Allowed: {', '.join(rt.settings.reviewers)}")
    if name == CLOCK:
        raise ReviewRefused(f"{name!r} decides when nobody does", "Use the name of a person")
    return name


def comment_of(comment: str) -> str:
    """A comment without the spaces around it.

    Raises:
        ReviewRefused: it is too long to be kept.
    """
    text = comment.strip()
    if len(text) > COMMENT_LIMIT:
        raise ReviewRefused(f"The comment has {len(text)} characters", f"At most {COMMENT_LIMIT} are kept")
    return text


def close(rt: Runtime, review: Review, why: str) -> Decision:
    """End a review without a person.

    Raises:
        AlreadyDecided: a person was faster.
    """
    return record_decision(rt, review, DecisionKind.EXPIRE, by=CLOCK, comment=why, attested="clock")


def record_decision(
    rt: Runtime, review: Review, kind: DecisionKind, *, by: str, comment: str, attested: Attested
) -> Decision:
    """Store a decision; of several about one review the first stays.

    Raises:
        AlreadyDecided: another was first.
    """
    decision = Decision(
        review=review.id,
        kind=kind,
        by=by,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        comment=comment,
        digest=review.digest,
        gates=review.gates,
        attested=attested,
    )
    page = PageDraft(
        id=f"{records.DECISION}-{review.id}",
        kind=records.DECISION,
        type=PageType.EVIDENCE,
        content=decision.model_dump(mode="json"),
        provenance=Provenance(
            source=f"reviewer:{by}", references=tuple(filter(None, (review.id, review.gates, review.proposal)))
        ),
        tags=(f"skill:{review.skill}",),
        parent=review.id,
    )
    try:
        with rt.store.writeback(rt.principal, scope=rt.settings.scope) as batch:
            batch.append(page)
    except Rejected as rejected:
        first = decision_of(rt, review.id)
        if first is None:
            raise
        raise _already(review.id, first) from rejected
    return decision


def _already(review_id: str, decision: Decision) -> AlreadyDecided:
    return AlreadyDecided(
        f"Already decided: {decision.kind.value} by {decision.by} at {decision.at}",
        f"`instar review show {review_id}` shows the decision",
    )
