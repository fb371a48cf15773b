"""What a review is, and how it is read from its pages; nothing here changes anything."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict

from instar.core import records
from instar.core.errors import NotFound
from instar.core.runtime import Runtime
from instar.engine.documents import Draft, Prd, Proposal
from instar.memstore import Page
from instar.sandbox.report import GateReport, Verdict
from instar.skills.errors import RegistryError
from instar.skills.package import digest
from instar.skills.records import version_order

ReviewAction = Literal["publish", "retire"]
Attested = Literal["cli", "ui", "clock"]


class DecisionKind(StrEnum):
    """The three answers of a person, and what time decides when nobody answers."""

    APPROVE = "approve"
    REJECT = "reject"
    REVISE = "revise"
    EXPIRE = "expire"


class ReviewState(StrEnum):
    """Where a review stands."""

    PENDING = "pending"
    STALE = "stale"
    """What was judged is not what is stored, or its gates no longer pass: it cannot be decided."""
    APPROVED = "approved"
    PUBLISHED = "published"
    RETIRED = "retired"
    REJECTED = "rejected"
    REVISE = "revise"
    EXPIRED = "expired"


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
    attested: Attested
    """How the identity is known. "cli", "ui": given by someone with access to this account, or to the Prefect UI."""


class Review(BaseModel):
    """A draft, or the retirement of a skill, that waits for a person or was decided."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    action: ReviewAction = "publish"
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
    proposal: str = ""
    """The proposal to retire; empty for a draft, whose requirement names its own."""
    newest: str = ""
    """The newest version when a retirement was proposed: one that is published later is not meant."""
    revises: str = ""
    """The review that was sent back, and of which this is the answer."""
    decision: Decision | None = None
    location: str = ""
    """Where the published skill lies."""
    problem: str = ""
    """Why an approval could not be carried out."""


PENDING, STALE = ReviewState.PENDING, ReviewState.STALE
DECIDED = {
    DecisionKind.APPROVE: ReviewState.APPROVED,
    DecisionKind.REJECT: ReviewState.REJECTED,
    DecisionKind.REVISE: ReviewState.REVISE,
    DecisionKind.EXPIRE: ReviewState.EXPIRED,
}


def read_review(rt: Runtime, page: Page) -> Review:
    """A review as its pages say it is."""
    fields = {name: str(page.content[name]) for name in ("skill", "version", "title", "digest", "risk")}
    pages = {name: str(page.content[name]) for name in ("draft", "prd", "gates")}
    action: ReviewAction = "retire" if page.content.get("action") == "retire" else "publish"
    decision = decision_of(rt, page.id)
    done = rt.store.get(rt.principal, f"{records.PUBLICATION}-{page.id}")
    if done is not None:
        state = ReviewState.PUBLISHED if action == "publish" else ReviewState.RETIRED
    elif decision is not None:
        state = DECIDED[decision.kind]
    elif action == "publish":
        judged = fresh(rt, fields["digest"], pages["draft"], pages["gates"])
        state = PENDING if judged and not overtaken(rt, fields["skill"], fields["version"]) else STALE
    else:
        state = PENDING if in_force(rt, fields["skill"]) == fields["digest"] else STALE
    return Review(
        id=page.id,
        action=action,
        state=state,
        opened_at=page.created_at.isoformat(timespec="seconds"),
        proposal=str(page.content.get("proposal", "")),
        newest=str(page.content.get("newest", "")),
        revises=str(page.content.get("revises", "")),
        decision=decision,
        location="" if done is None else str(done.content["location"]),
        **fields,
        **pages,
    )


def decision_of(rt: Runtime, review_id: str) -> Decision | None:
    """The decision about a review, if there is one."""
    page = rt.store.get(rt.principal, f"{records.DECISION}-{review_id}")
    return None if page is None else Decision.model_validate(page.content)


def documents_of(rt: Runtime, review: Review) -> tuple[Draft, Prd, GateReport]:
    """The three things to read before deciding about a draft: itself, its requirement and its gate report.

    Raises:
        NotFound: one of them is no longer stored, or the review is about a retirement, which has none.
    """
    if review.action == "retire":
        raise NotFound(f"Review {review.id} retires a skill", "There is no draft to read, only its proposal")
    pages = [rt.store.get(rt.principal, page_id) for page_id in (review.draft, review.prd, review.gates)]
    draft, prd, gates = pages
    if draft is None or prd is None or gates is None:
        raise NotFound(f"Review {review.id}: its documents are not in the store", "`instar doctor` checks the store")
    return records.document(draft, Draft), records.document(prd, Prd), GateReport.model_validate(gates.content)


def proposal_of(rt: Runtime, review: Review, prd: Prd | None = None) -> Proposal | None:
    """The proposal behind a review; None where the store does not hold it."""
    page = rt.store.get(rt.principal, review.proposal or (prd.proposal if prd else ""))
    return None if page is None else records.document(page, Proposal)


def fresh(rt: Runtime, expected: str, draft_id: str, gates_id: str) -> bool:
    """Whether the stored draft still has the digest that was judged, and the judgement still says pass."""
    draft, gates = rt.store.get(rt.principal, draft_id), rt.store.get(rt.principal, gates_id)
    if draft is None or gates is None:
        return False
    report = GateReport.model_validate(gates.content)
    found = digest(draft_bytes(records.document(draft, Draft)))
    return found == expected == report.digest and report.verdict is Verdict.PASS


def overtaken(rt: Runtime, skill: str, version: str) -> bool:
    """Whether this version, or a higher one, is published already: then nothing can be published under it."""
    published = rt.registry.versions(skill)
    return bool(published) and version_order(published[-1].record.version) >= version_order(version)


def in_force(rt: Runtime, skill: str) -> str:
    """The digest of the version in force; empty when there is none, or it cannot be used."""
    try:
        return rt.registry.get(skill).record.digest
    except RegistryError:
        return ""


def draft_bytes(draft: Draft) -> dict[str, bytes]:
    """The files of a draft as they are judged, approved and published."""
    return {path: text.encode("utf-8") for path, text in draft.files.items()}
