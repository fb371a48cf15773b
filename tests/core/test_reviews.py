from __future__ import annotations

import threading

import pytest

from instar.core.build import Built, build
from instar.core.errors import NotFound, ReviewRefused
from instar.core.learn import reflect
from instar.core.lineage import lineage
from instar.core.reviews import (
    DecisionKind,
    Review,
    ReviewState,
    decide,
    documents_of,
    get_review,
    list_reviews,
)
from instar.core.runtime import Runtime, runtime
from instar.core.settings import Settings
from instar.core.skills import call_skill, list_skills
from instar.sandbox.report import Verdict
from instar.skills.errors import SkillChanged, SkillQuarantined
from instar.skills.registry import Registry


@pytest.fixture
def review(rt: Runtime, drafts: list[Built]) -> Review:
    return get_review(rt, drafts[0].review)


def approve(rt: Runtime, review: Review, by: str = "ada") -> Review:
    return decide(rt, review.id, DecisionKind.APPROVE, by=by)


def test_the_chain_leaves_a_passed_draft_that_waits(rt: Runtime, drafts: list[Built]) -> None:
    assert drafts
    assert {built.verdict for built in drafts} == {Verdict.PASS}
    assert {r.id for r in list_reviews(rt)} == {built.review for built in drafts}
    assert {r.state for r in list_reviews(rt)} == {ReviewState.PENDING}
    assert list_skills(rt) == []


def test_an_approval_publishes_exactly_the_judged_bytes(rt: Runtime, review: Review) -> None:
    published = approve(rt, review)
    assert published.state is ReviewState.PUBLISHED
    (skill,) = list_skills(rt)
    assert (skill.name, skill.digest, skill.status) == (review.skill, review.digest, "intact")
    assert skill.approved_by == "ada"


def test_an_approved_skill_runs_with_its_real_tools(rt: Runtime, review: Review) -> None:
    approve(rt, review)
    _, prd, _ = documents_of(rt, review)
    recorded = prd.folds[0].cases[0]
    call = call_skill(rt, review.skill, recorded.arguments)
    assert (call.status, call.error) == ("returned", "")
    assert call.calls >= 2
    assert call.value == recorded.returns
    use = rt.store.get(rt.principal, call.page)
    assert use is not None
    assert use.content["digest"] == review.digest


def test_a_second_decision_is_refused_and_names_the_first(rt: Runtime, review: Review) -> None:
    decide(rt, review.id, DecisionKind.REJECT, by="ada", comment="not useful")
    with pytest.raises(ReviewRefused, match="reject by ada"):
        approve(rt, review, by="bob")
    assert get_review(rt, review.id).state is ReviewState.REJECTED
    assert list_skills(rt) == []


def test_of_two_decisions_at_once_one_wins(settings: Settings, review: Review) -> None:
    barrier, outcomes = threading.Barrier(2), []

    def vote(kind: DecisionKind, by: str) -> None:
        with runtime(settings) as own:
            barrier.wait()
            try:
                outcomes.append(decide(own, review.id, kind, by=by).state)
            except ReviewRefused:
                outcomes.append(None)

    votes = [
        threading.Thread(target=vote, args=(DecisionKind.APPROVE, "ada")),
        threading.Thread(target=vote, args=(DecisionKind.REJECT, "bob")),
    ]
    for thread in votes:
        thread.start()
    for thread in votes:
        thread.join()
    assert outcomes.count(None) == 1
    with runtime(settings) as own:
        assert get_review(own, review.id).state in outcomes


def test_a_crash_between_decision_and_publication_is_made_good(
    rt: Runtime, review: Review, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crash(RuntimeError):
        pass

    def crash(*_: object, **__: object) -> None:
        raise Crash

    monkeypatch.setattr(Registry, "publish", crash)
    with pytest.raises(Crash):
        approve(rt, review)
    monkeypatch.undo()
    assert list_skills(rt) == []
    assert get_review(rt, review.id).state is ReviewState.PUBLISHED
    assert [skill.name for skill in list_skills(rt)] == [review.skill]


def test_a_draft_that_changed_after_its_gates_cannot_be_approved(rt: Runtime, review: Review) -> None:
    page = rt.store.get(rt.principal, review.draft)
    assert page is not None
    files = page.content["files"]
    assert isinstance(files, dict)
    changed = {**files, "scripts/skill.py": str(files["scripts/skill.py"]) + "\n# one more line\n"}
    with rt.store.writeback(rt.principal, scope="local") as batch:
        batch.replace(review.draft, content={**page.content, "files": changed}, expect=page.version)
    assert get_review(rt, review.id).state is ReviewState.STALE
    with pytest.raises(ReviewRefused, match="stale"):
        approve(rt, review)
    assert list_skills(rt) == []


def test_only_listed_reviewers_may_decide(settings: Settings, review: Review) -> None:
    with runtime(settings.model_copy(update={"reviewers": ("ada",)})) as strict:
        with pytest.raises(ReviewRefused, match="mallory may not decide"):
            approve(strict, review, by="mallory")
        assert approve(strict, review, by="ada").state is ReviewState.PUBLISHED


def test_another_digest_than_the_one_that_was_read_is_refused(rt: Runtime, review: Review) -> None:
    with pytest.raises(ReviewRefused, match="stale"):
        decide(rt, review.id, DecisionKind.APPROVE, by="ada", expect_digest="sha256:" + "0" * 64)


def test_to_revise_needs_a_comment(rt: Runtime, review: Review) -> None:
    with pytest.raises(ReviewRefused, match="comment"):
        decide(rt, review.id, DecisionKind.REVISE, by="ada")
    revised = decide(rt, review.id, DecisionKind.REVISE, by="ada", comment="leave out the products")
    assert revised.state is ReviewState.REVISE


def test_building_the_same_requirement_again_changes_nothing(rt: Runtime, review: Review) -> None:
    before = rt.store.count(rt.principal, scope="local")
    again = build(rt, review.prd)
    assert (again.digest, again.review) == (review.digest, review.id)
    assert rt.store.count(rt.principal, scope="local") == before


def test_a_rejected_draft_is_not_offered_for_review_again(rt: Runtime, review: Review) -> None:
    decide(rt, review.id, DecisionKind.REJECT, by="ada", comment="no use")
    again = build(rt, review.prd)
    assert (again.review, again.decided) == (review.id, "reject by ada")
    assert get_review(rt, review.id).state is ReviewState.REJECTED


def test_a_published_skill_is_not_proposed_again(rt: Runtime, drafts: list[Built]) -> None:
    for built in drafts:
        approve(rt, get_review(rt, built.review))
    assert reflect(rt).proposals == []


def test_a_changed_file_is_quarantined_and_never_run(rt: Runtime, review: Review) -> None:
    published = approve(rt, review)
    code = rt.settings.home / "skills" / published.skill / published.version / "scripts" / "skill.py"
    code.write_text(code.read_text() + "\n# changed\n")
    with pytest.raises(SkillChanged, match=r"skill\.py"):
        call_skill(rt, review.skill, {})
    with pytest.raises(SkillQuarantined):
        call_skill(rt, review.skill, {})


def test_a_skill_without_an_approval_in_this_store_does_not_run(rt: Runtime, review: Review) -> None:
    approve(rt, review)
    with runtime(Settings(home=rt.settings.home, store_url="memory:")) as stranger, pytest.raises(NotFound):
        call_skill(stranger, review.skill, {})


def test_a_line_leads_back_to_session_steps(rt: Runtime, review: Review) -> None:
    approve(rt, review)
    whole = lineage(rt, review.skill)
    assert whole.lines
    assert whole.sessions >= 4
    line = whole.lines[0]
    traced = lineage(rt, review.skill, line.first_line)
    assert traced.lines[0].steps
    page = rt.store.get(rt.principal, traced.lines[0].steps[0].page)
    assert page is not None
    assert page.kind == "step"
    assert page.session is not None


def test_a_line_that_rests_on_nothing_says_so(rt: Runtime, review: Review) -> None:
    approve(rt, review)
    with pytest.raises(NotFound, match="no line 9999"):
        lineage(rt, review.skill, 9999)
