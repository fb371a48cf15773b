"""Reviews: one person's decision about one digest, recorded before anything is published."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, JsonValue

from instar.core import records
from instar.core.build import draft_bytes
from instar.core.errors import NotFound, ReviewRefused
from instar.core.runtime import Runtime
from instar.engine.documents import Draft, Prd
from instar.memstore import Page, PageDraft, PageType, Provenance, Rejected
from instar.sandbox.report import GateReport, Verdict
from instar.skills.package import digest, parse_manifest
from instar.skills.records import PublicationRecord


class DecisionKind(StrEnum):
    """The three answers."""

    APPROVE = "approve"
    REJECT = "reject"
    REVISE = "revise"


class ReviewState(StrEnum):
    """Where a review stands."""

    PENDING = "pending"
    STALE = "stale"
    """What was judged is not what is stored, or its gates no longer pass: it cannot be decided."""
    APPROVED = "approved"
    PUBLISHED = "published"
    REJECTED = "rejected"
    REVISE = "revise"


class Decision(BaseModel):
    """Who decided what about which bytes, when and why."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    review: str
    kind: DecisionKind
    by: str
    at: str
    comment: str
    digest: str
    gates: str
    attested: str
    """How the identity is known; "cli" means: given by someone with access to this account."""


class Review(BaseModel):
    """A draft that waits for a person, or was decided."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    state: ReviewState
    skill: str
    version: str
    title: str
    digest: str
    risk: str
    opened_at: str
    draft: str
    prd: str
    gates: str
    decision: Decision | None = None
    location: str = ""
    """Where the published skill lies."""


def list_reviews(rt: Runtime) -> list[Review]:
    """All reviews, the newest first; publishing that was interrupted is finished on the way."""
    pages = rt.store.find(rt.principal, scope=rt.settings.scope, kind=records.REVIEW, newest_first=True)
    return [_finish(rt, _read(rt, page)) for page in pages]


def get_review(rt: Runtime, review_id: str) -> Review:
    """One review by its id or an unambiguous beginning of it.

    Raises:
        NotFound: no review, or several, begin with this.
    """
    page = rt.store.get(rt.principal, review_id)
    if page is not None and page.kind == records.REVIEW:
        return _finish(rt, _read(rt, page))
    matches = [review for review in list_reviews(rt) if review_id and review.id.startswith(review_id)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise NotFound(f"{review_id!r} begins several reviews", "They are: " + ", ".join(r.id for r in matches))
    raise NotFound(f"No review {review_id!r}", "`instar review list` shows what waits")


def documents_of(rt: Runtime, review: Review) -> tuple[Draft, Prd, GateReport]:
    """The three things to read before deciding: the draft, its requirement and its gate report.

    Raises:
        NotFound: one of them is no longer stored.
    """
    pages = [rt.store.get(rt.principal, page_id) for page_id in (review.draft, review.prd, review.gates)]
    draft, prd, gates = pages
    if draft is None or prd is None or gates is None:
        raise NotFound(f"Review {review.id}: its documents are not in the store", "`instar doctor` checks the store")
    return records.document(draft, Draft), records.document(prd, Prd), GateReport.model_validate(gates.content)


def decide(
    rt: Runtime,
    review_id: str,
    kind: DecisionKind,
    *,
    by: str,
    comment: str = "",
    confirm_risk: bool = False,
    expect_digest: str = "",
) -> Review:
    """Record a decision and, when it approves, publish exactly those bytes.

    The decision is stored first; a crash before the publication is made good by the next look at the review. Of two
    decisions at once one wins, and the other is told who was first.

    Raises:
        NotFound: there is no such review.
        ReviewRefused: it is stale or decided, the reviewer is not allowed, or a high risk was not confirmed.
        SkillsError: the registry refuses the publication (the name belongs to another lineage).
    """
    review = get_review(rt, review_id)
    if not by.strip():
        raise ReviewRefused("A decision needs a name", "Say who decides with --by NAME")
    if rt.settings.reviewers and by not in rt.settings.reviewers:
        raise ReviewRefused(f"{by} may not decide here", f"Allowed: {', '.join(rt.settings.reviewers)}")
    if review.decision is not None:
        raise ReviewRefused(_already(review.decision), f"`instar review show {review.id}` shows the decision")
    if review.state is ReviewState.STALE or (expect_digest and expect_digest != review.digest):
        raise ReviewRefused(
            f"Review {review.id} is stale: its draft or gate report changed", "`instar evolve` opens a new review"
        )
    if kind is DecisionKind.REVISE and not comment.strip():
        raise ReviewRefused("To revise, the engine needs a comment", "Say what to change with --comment TEXT")
    if kind is DecisionKind.APPROVE and review.risk == "high" and not confirm_risk:
        raise ReviewRefused(
            f"{review.skill} is of high risk", "Read its findings, then repeat the command with --confirm-risk"
        )
    decision = Decision(
        review=review.id,
        kind=kind,
        by=by.strip(),
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        comment=comment.strip(),
        digest=review.digest,
        gates=review.gates,
        attested="cli",
    )
    _record(rt, decision)
    return get_review(rt, review.id)


def approved_digest(rt: Runtime, name: str, version: str) -> str:
    """The digest that a person approved for a published version; empty when there is none."""
    for page in rt.store.find(rt.principal, scope=rt.settings.scope, kind=records.PUBLICATION, tag=f"skill:{name}"):
        if page.content["version"] == version:
            return str(page.content["digest"])
    return ""


def _record(rt: Runtime, decision: Decision) -> None:
    page = PageDraft(
        id=f"decision-{decision.review}",
        kind=records.DECISION,
        type=PageType.EVIDENCE,
        content=decision.model_dump(mode="json"),
        provenance=Provenance(source=f"reviewer:{decision.by}", references=(decision.review, decision.gates)),
        parent=decision.review,
    )
    try:
        with rt.store.writeback(rt.principal, scope=rt.settings.scope) as batch:
            batch.append(page)
    except Rejected as rejected:
        first = _decision(rt, decision.review)
        if first is None:
            raise
        raise ReviewRefused(
            _already(first), f"`instar review show {decision.review}` shows the decision"
        ) from rejected


def _already(decision: Decision) -> str:
    return f"Already decided: {decision.kind.value} by {decision.by} at {decision.at}"


def _decision(rt: Runtime, review_id: str) -> Decision | None:
    page = rt.store.get(rt.principal, f"decision-{review_id}")
    return None if page is None else Decision.model_validate(page.content)


def _read(rt: Runtime, page: Page) -> Review:
    fields = {name: str(page.content[name]) for name in ("skill", "version", "title", "digest", "risk")}
    pages = {name: str(page.content[name]) for name in ("draft", "prd", "gates")}
    decision = _decision(rt, page.id)
    publication = rt.store.get(rt.principal, f"publication-{page.id}")
    if publication is not None:
        state = ReviewState.PUBLISHED
    elif decision is not None:
        state = _DECIDED[decision.kind]
    else:
        state = ReviewState.PENDING if _fresh(rt, fields["digest"], pages) else ReviewState.STALE
    return Review(
        id=page.id,
        state=state,
        opened_at=page.created_at.isoformat(timespec="seconds"),
        decision=decision,
        location="" if publication is None else str(publication.content["location"]),
        **fields,
        **pages,
    )


_DECIDED = {
    DecisionKind.APPROVE: ReviewState.APPROVED,
    DecisionKind.REJECT: ReviewState.REJECTED,
    DecisionKind.REVISE: ReviewState.REVISE,
}


def _fresh(rt: Runtime, expected: str, pages: dict[str, str]) -> bool:
    """Whether the stored draft still has the digest that was judged, and the judgement still says pass."""
    draft, gates = rt.store.get(rt.principal, pages["draft"]), rt.store.get(rt.principal, pages["gates"])
    if draft is None or gates is None:
        return False
    report = GateReport.model_validate(gates.content)
    found = digest(draft_bytes(records.document(draft, Draft)))
    return found == expected == report.digest and report.verdict is Verdict.PASS


def _finish(rt: Runtime, review: Review) -> Review:
    """Publish an approved review that is not published yet; doing it twice is doing it once."""
    decision = review.decision
    if review.state is not ReviewState.APPROVED or decision is None:
        return review
    if not _fresh(rt, decision.digest, {"draft": review.draft, "gates": review.gates}):
        raise ReviewRefused(
            f"Review {review.id} was approved for other bytes than are stored", "Nothing was published"
        )
    page = rt.store.get(rt.principal, review.draft)
    if page is None:
        raise NotFound(f"Review {review.id}: its draft is not in the store", "`instar doctor` checks the store")
    files = draft_bytes(records.document(page, Draft))
    record = PublicationRecord(
        name=review.skill,
        version=review.version,
        digest=review.digest,
        lineage=parse_manifest(files).lineage,
        approval=f"decision-{review.id}",
        reviewer=decision.by,
        at=datetime.fromisoformat(decision.at),
    )
    location = rt.registry.publish(files, record=record)
    content: dict[str, JsonValue] = record.model_dump(mode="json") | {"location": str(location)}
    publication = PageDraft(
        id=f"publication-{review.id}",
        kind=records.PUBLICATION,
        type=PageType.EVIDENCE,
        content=content,
        provenance=Provenance(source="publish", references=(f"decision-{review.id}", review.draft)),
        tags=(f"skill:{review.skill}",),
        parent=review.id,
    )
    with rt.store.writeback(rt.principal, scope=rt.settings.scope) as batch:
        batch.append(publication)
    return review.model_copy(update={"state": ReviewState.PUBLISHED, "location": str(location)})
