"""Opening reviews: one for each digest, however often it is asked for; a newer draft takes the place of an older."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from pydantic import JsonValue

from instar.core import records
from instar.core.errors import AlreadyDecided, NotFound
from instar.core.review_pages import Decision, DecisionKind, ReviewState, decision_of, read_review
from instar.core.reviews import close
from instar.core.runtime import Runtime
from instar.engine.documents import Proposal, ProposalAction
from instar.memstore import PageDraft, PageType, Provenance, Rejected


@dataclass(frozen=True, slots=True)
class DraftReview:
    """What a review of a draft is about."""

    skill: str
    version: str
    digest: str
    draft: str
    prd: str
    gates: str
    risk: str
    title: str
    revises: str = ""
    """The review that was sent back, and of which this draft is the answer."""


def open_draft(rt: Runtime, about: DraftReview) -> tuple[str, str]:
    """Open the review of a draft that passed; return its id, and the decision where these bytes were decided before.

    The same bytes have one review. Only when it expired, a new one is opened. Earlier drafts of the same skill that
    still wait are closed: a person is asked about the newest.
    """
    content: dict[str, JsonValue] = {"action": "publish", **asdict(about)}
    base = f"{about.skill}-{about.version}-{about.digest.removeprefix('sha256:')[:8]}"
    opened, decision = _open(rt, base, content, (about.draft, about.gates, about.prd), about.draft)
    if decision is not None:
        return opened, f"{decision.kind.value} by {decision.by}"
    _supersede(rt, about.skill, opened)
    return opened, ""


def open_retirement(rt: Runtime, proposal_id: str) -> tuple[str, str]:
    """Ask a person whether a skill should go; once for each version, unless the review expired.

    Raises:
        NotFound: there is no such proposal.
        NotPublished: the skill is not published, or retired already.
    """
    page = rt.store.get(rt.principal, proposal_id)
    if page is None or page.kind != records.PROPOSAL:
        raise NotFound(f"No proposal {proposal_id!r}", "`instar pages list --kind proposal` shows what there is")
    proposal = records.document(page, Proposal)
    if proposal.action is not ProposalAction.RETIRE:
        raise NotFound(f"{proposal_id} does not propose to retire a skill", "`instar build` builds it")
    record = rt.registry.get(proposal.skill).record
    content: dict[str, JsonValue] = {
        "action": "retire",
        "skill": proposal.skill,
        "version": record.version,
        "digest": record.digest,
        "draft": "",
        "prd": "",
        "gates": "",
        "risk": "low",
        "title": proposal.title,
        "proposal": proposal.id,
        "newest": rt.registry.versions(proposal.skill)[-1].record.version,
    }
    base = f"retire-{proposal.skill}-{record.version}-{record.digest.removeprefix('sha256:')[:8]}"
    opened, decision = _open(rt, base, content, (proposal.id,), proposal.id)
    return opened, "" if decision is None else f"{decision.kind.value} by {decision.by}"


def _open(
    rt: Runtime, base: str, content: dict[str, JsonValue], references: tuple[str, ...], parent: str
) -> tuple[str, Decision | None]:
    number = 1
    while True:
        review_id = base if number == 1 else f"{base}.{number}"
        page = rt.store.get(rt.principal, review_id)
        decision = decision_of(rt, review_id)
        if page is None:
            break
        if decision is None or decision.kind is not DecisionKind.EXPIRE:
            return review_id, decision
        number += 1
    page_draft = PageDraft(
        id=review_id,
        kind=records.REVIEW,
        type=PageType.EVIDENCE,
        content=content,
        provenance=Provenance(source="build", references=references),
        tags=(f"skill:{content['skill']}",),
        parent=parent,
    )
    try:
        with rt.store.writeback(rt.principal, scope=rt.settings.scope) as batch:
            batch.append(page_draft)
    except Rejected:
        # Another build of the same bytes opened the review first, on its own report; that one stands.
        if rt.store.get(rt.principal, review_id) is None:
            raise
    return review_id, None


def _supersede(rt: Runtime, skill: str, by: str) -> None:
    for page in rt.store.find(rt.principal, scope=rt.settings.scope, kind=records.REVIEW, tag=f"skill:{skill}"):
        review = read_review(rt, page)
        waits = review.state in (ReviewState.PENDING, ReviewState.STALE) and review.action == "publish"
        if waits and review.id != by:
            try:
                close(rt, review, f"a newer draft waits: {by}")
            except AlreadyDecided:
                continue  # a person was a moment faster, and that counts
