"""What becomes of a draft that was sent back."""

from __future__ import annotations

import pytest

from instar.core.build import Built
from instar.core.errors import NotFound
from instar.core.reviews import DecisionKind, ReviewState, decide, documents_of, get_review
from instar.core.revising import revise, revision_of, waiting_revisions
from instar.core.runtime import Runtime
from instar.engine.compiler.revise import wishes, without
from instar.engine.plan import Plan


@pytest.fixture
def larger(rt: Runtime, drafts: list[Built]) -> Built:
    return max(drafts, key=lambda built: len(plan_of(rt, built).nodes))


def plan_of(rt: Runtime, built: Built) -> Plan:
    plan = documents_of(rt, get_review(rt, built.review))[1].plan
    assert plan is not None
    return plan


def sent_back(rt: Runtime, review: str, comment: str) -> str:
    decide(rt, review, DecisionKind.REVISE, by="ada", comment=comment)
    return review


def test_a_draft_comes_back_without_what_was_to_be_left_out(rt: Runtime, larger: Built) -> None:
    revision = revise(rt, sent_back(rt, larger.review, "Please leave out get_product. Make it quick."))
    answer = get_review(rt, revision.answer)
    assert (answer.state, answer.revises, answer.skill) == (ReviewState.PENDING, larger.review, larger.skill)
    draft, prd, _ = documents_of(rt, answer)
    assert "get_product" not in draft.files["scripts/skill.py"]
    assert "A reviewer also asked: Make it quick" in prd.open_questions


def test_a_second_remark_does_not_undo_what_the_first_asked_for(rt: Runtime, larger: Built) -> None:
    first = revise(rt, sent_back(rt, larger.review, "leave out get_product"))
    second = revise(rt, sent_back(rt, first.answer, "rename to orders-of-a-customer. Do not use when it rains."))
    answer = get_review(rt, second.answer)
    draft, prd, _ = documents_of(rt, answer)
    assert answer.skill == "orders-of-a-customer"
    assert "get_product" not in draft.files["scripts/skill.py"]
    assert "When it rains" in prd.when_not_to_use
    assert "it rains" in draft.files["SKILL.md"]


@pytest.mark.parametrize(
    ("comment", "said"),
    [
        ("It should be nicer", "did not understand"),
        ("leave out the frobnicator", "did not understand"),
        ("leave out get_customer", "nothing would be left"),
    ],
)
def test_what_the_engine_cannot_do_is_said_and_nothing_is_offered_twice(
    rt: Runtime, larger: Built, comment: str, said: str
) -> None:
    revision = revise(rt, sent_back(rt, larger.review, comment))
    assert revision.answer == ""
    assert said in revision.said
    assert get_review(rt, larger.review).state is ReviewState.REVISE


def test_a_draft_is_answered_once(rt: Runtime, larger: Built) -> None:
    review = sent_back(rt, larger.review, "rename to once-only")
    assert waiting_revisions(rt) == [review]
    first = revise(rt, review)
    before = rt.store.count(rt.principal, scope="local")
    assert revise(rt, review) == first == revision_of(rt, review)
    assert waiting_revisions(rt) == []
    assert rt.store.count(rt.principal, scope="local") == before


def test_what_was_not_sent_back_has_no_answer(rt: Runtime, larger: Built) -> None:
    with pytest.raises(NotFound, match="was not sent back"):
        revise(rt, larger.review)


def test_a_comment_is_read_sentence_by_sentence(rt: Runtime, larger: Built) -> None:
    found = wishes(
        ["Leave out track shipments and get_product!\nRename it to My Orders.", "Only use it when asked twice; why?"],
        plan_of(rt, larger),
    )
    assert found.leave_out == ["track_shipment", "get_product"]
    assert (found.name, found.when, found.open) == ("my-orders", ["When asked twice"], ["why"])


def test_leaving_out_a_step_leaves_out_what_only_it_makes_possible(rt: Runtime, larger: Built) -> None:
    plan = plan_of(rt, larger)
    left = without(plan, "get_order")
    assert left is not None
    tools = {node.tool for node in left.nodes}
    assert not tools & {"get_order", "track_shipment", "get_product"}
    assert {parameter.name for parameter in left.parameters}.isdisjoint(
        {"with_shipment", "with_product", "max_items"}
    )
    assert left.firing is None
