"""Opening, expiring and superseding reviews, and what a reviewer is asked about a skill that may go."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from instar.core.build import Built, build
from instar.core.errors import AlreadyDecided, NotFound, ReviewRefused, ReviewStale
from instar.core.opening import DraftReview, open_draft, open_retirement
from instar.core.refusals import refusals, refuse
from instar.core.reviews import DecisionKind, Review, ReviewState, decide, expire, get_review, list_reviews
from instar.core.runtime import Runtime
from instar.core.skills import list_skills
from instar.skills.errors import NameTaken


@pytest.fixture
def review(rt: Runtime, drafts: list[Built]) -> Review:
    return get_review(rt, drafts[0].review)


def later(days: float) -> datetime:
    return datetime.now(UTC) + timedelta(days=days)


def about(review: Review, **changes: str) -> DraftReview:
    fields = {name: getattr(review, name) for name in ("skill", "version", "digest", "draft", "prd", "gates", "risk")}
    return DraftReview(**{**fields, "title": review.title, **changes})


def test_a_review_that_waits_too_long_expires_and_says_so(rt: Runtime, review: Review) -> None:
    assert expire(rt, later(13.9)) == []
    assert review.id in {expired.id for expired in expire(rt, later(14.1))}
    expired = get_review(rt, review.id)
    assert expired.state is ReviewState.EXPIRED
    assert expired.decision is not None
    assert (expired.decision.by, expired.decision.comment) == ("instar", "waited 14 days")
    assert list_skills(rt) == []


def test_an_expired_review_cannot_be_approved_any_more(rt: Runtime, review: Review) -> None:
    expire(rt, later(15))
    with pytest.raises(AlreadyDecided, match="expire by instar"):
        decide(rt, review.id, DecisionKind.APPROVE, by="ada")


def test_a_draft_whose_review_expired_is_offered_again(rt: Runtime, review: Review) -> None:
    expire(rt, later(15))
    again = build(rt, review.prd)
    assert (again.digest, again.review, again.decided) == (review.digest, f"{review.id}.2", "")
    assert get_review(rt, again.review).state is ReviewState.PENDING


def test_a_decided_review_does_not_expire(rt: Runtime, review: Review) -> None:
    decide(rt, review.id, DecisionKind.REJECT, by="ada")
    assert review.id not in {expired.id for expired in expire(rt, later(15))}
    assert get_review(rt, review.id).state is ReviewState.REJECTED


def test_a_newer_draft_of_a_skill_closes_the_review_of_the_older_one(rt: Runtime, review: Review) -> None:
    newer, decided = open_draft(rt, about(review, digest="sha256:" + "a" * 64))
    assert decided == ""
    closed = get_review(rt, review.id)
    assert closed.state is ReviewState.EXPIRED
    assert closed.decision is not None
    assert closed.decision.comment == f"a newer draft waits: {newer}"


def test_nobody_decides_in_the_name_of_the_clock(rt: Runtime, review: Review) -> None:
    with pytest.raises(ReviewRefused, match="name of a person"):
        decide(rt, review.id, DecisionKind.APPROVE, by="instar")


def test_a_version_that_was_overtaken_is_stale_and_not_published(rt: Runtime, review: Review) -> None:
    decide(rt, review.id, DecisionKind.APPROVE, by="ada")
    other, _ = open_draft(rt, about(review, digest="sha256:" + "b" * 64))
    assert get_review(rt, other).state is ReviewState.STALE
    with pytest.raises(ReviewStale):
        decide(rt, other, DecisionKind.APPROVE, by="ada")


def test_an_approval_that_cannot_be_carried_out_says_why_and_hides_no_other(
    rt: Runtime, review: Review, drafts: list[Built], monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(*_: object, **__: object) -> None:
        raise NameTaken(review.skill, "a stranger", "us")

    monkeypatch.setattr(type(rt.registry), "publish", taken)
    with pytest.raises(NameTaken):
        decide(rt, review.id, DecisionKind.APPROVE, by="ada")
    listed = {found.id: found for found in list_reviews(rt)}
    assert "belongs to lineage" in listed[review.id].problem
    assert listed[drafts[1].review].state is ReviewState.PENDING
    monkeypatch.undo()
    assert get_review(rt, review.id).state is ReviewState.PUBLISHED


def test_answers_that_did_not_count_are_kept_in_their_order(rt: Runtime, review: Review) -> None:
    refuse(rt, review.id, "mallory may not decide here")
    refuse(rt, review.id, "To revise, the engine needs a comment")
    assert refusals(rt, review.id) == ["mallory may not decide here", "To revise, the engine needs a comment"]


@pytest.fixture
def retirement(rt: Runtime, review: Review, propose_to_retire: Callable[[Runtime, str], str]) -> str:
    decide(rt, review.id, DecisionKind.APPROVE, by="ada")
    return open_retirement(rt, propose_to_retire(rt, review.skill))[0]


def test_a_proposal_to_retire_becomes_a_review_that_a_person_decides(
    rt: Runtime, review: Review, retirement: str
) -> None:
    asked = get_review(rt, retirement)
    assert (asked.action, asked.state, asked.digest) == ("retire", ReviewState.PENDING, review.digest)
    assert list_skills(rt)[0].status == "intact"
    assert decide(rt, retirement, DecisionKind.APPROVE, by="ada").state is ReviewState.RETIRED
    assert list_skills(rt)[0].status == "retired"


def test_a_skill_that_was_kept_is_not_asked_about_again(rt: Runtime, review: Review, retirement: str) -> None:
    decide(rt, retirement, DecisionKind.REJECT, by="ada", comment="we need it in winter")
    assert open_retirement(rt, f"proposal-retire-{review.skill}") == (retirement, "reject by ada")
    assert list_skills(rt)[0].status == "intact"


def test_there_is_nothing_to_revise_in_a_retirement(rt: Runtime, retirement: str) -> None:
    with pytest.raises(ReviewRefused, match="nothing to revise"):
        decide(rt, retirement, DecisionKind.REVISE, by="ada", comment="rename it")


def test_a_proposal_that_builds_something_is_no_retirement(rt: Runtime) -> None:
    other = next(page.id for page in rt.store.find(rt.principal, scope="local", kind="proposal"))
    with pytest.raises(NotFound, match="does not propose to retire"):
        open_retirement(rt, other)
