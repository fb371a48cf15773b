"""Carrying out an approval, exactly once: whatever stops it, the next look at the review goes on where it stopped.

The decision is stored first. Then comes the registry, which publishes the same digest twice as it does once, and last
the page that says it was done. So there is no moment at which a crash loses an approval or carries it out twice.
"""

from __future__ import annotations

from datetime import datetime

from pydantic import JsonValue

from instar.core import records
from instar.core.errors import InstarError, NotFound, ReviewRefused
from instar.core.review_pages import Decision, Review, ReviewState, draft_bytes, fresh
from instar.core.runtime import Runtime
from instar.engine.documents import Draft
from instar.memstore import PageDraft, PageType, Provenance
from instar.skills.errors import SkillsError
from instar.skills.package import parse_manifest
from instar.skills.records import PublicationRecord
from instar.skills.standing import Standing


def finish(rt: Runtime, review: Review) -> Review:
    """Carry out an approval that is not carried out yet; doing it twice is doing it once.

    Raises:
        ReviewRefused: other bytes are stored than were approved.
        NotFound: the draft is no longer stored.
        SkillsError: the registry refuses it, for example because the name belongs to another lineage.
    """
    decision = review.decision
    if review.state is not ReviewState.APPROVED or decision is None:
        return review
    rt.step("decided")
    location = ""
    content: dict[str, JsonValue]
    if review.action == "retire":
        _retire(rt, review, decision)
        content = {"name": review.skill, "version": review.version, "digest": review.digest, "reviewer": decision.by}
    else:
        record, location = _publish(rt, review, decision)
        content = record.model_dump(mode="json")
    rt.step("publication")
    page = PageDraft(
        id=f"{records.PUBLICATION}-{review.id}",
        kind=records.PUBLICATION,
        type=PageType.EVIDENCE,
        content=content | {"location": location, "action": review.action},
        provenance=Provenance(source="publish", references=(f"{records.DECISION}-{review.id}",)),
        tags=(f"skill:{review.skill}",),
        parent=review.id,
    )
    with rt.store.writeback(rt.principal, scope=rt.settings.scope) as batch:
        batch.append(page)
    rt.step("published")
    state = ReviewState.PUBLISHED if review.action == "publish" else ReviewState.RETIRED
    return review.model_copy(update={"state": state, "location": location})


def finish_or_say(rt: Runtime, review: Review) -> Review:
    """As `finish`, but what prevents it stands in the review: one that cannot be finished hides no other."""
    try:
        return finish(rt, review)
    except (InstarError, SkillsError) as error:
        return review.model_copy(update={"problem": str(error)})


def _publish(rt: Runtime, review: Review, decision: Decision) -> tuple[PublicationRecord, str]:
    if not fresh(rt, decision.digest, review.draft, review.gates):
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
        approval=f"{records.DECISION}-{review.id}",
        reviewer=decision.by,
        at=datetime.fromisoformat(decision.at),
    )
    return record, str(rt.registry.publish(files, record=record))


def _retire(rt: Runtime, review: Review, decision: Decision) -> None:
    rt.registry.stand(
        Standing(
            name=review.skill,
            version="",
            digest="",
            after=review.newest,
            decision=f"{records.DECISION}-{review.id}",
            by=decision.by,
            at=datetime.fromisoformat(decision.at),
        )
    )
