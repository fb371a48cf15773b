"""Feedback and decisions move what pages count for, and `explain` says so."""

from instar.core import records
from instar.core.build import Built
from instar.core.events import give_feedback
from instar.core.recall import explain
from instar.core.reviews import DecisionKind, decide
from instar.core.runtime import Runtime
from instar.memstore import Page


def pages(rt: Runtime, kind: str) -> dict[str, Page]:
    return {page.id: page for page in rt.store.find(rt.principal, scope="local", kind=kind)}


def test_feedback_on_a_session_moves_what_was_learned_from_it(rt: Runtime) -> None:
    memory = next(iter(pages(rt, records.MEMORY).values()))
    assert memory.session is not None
    before = explain(rt, memory.id)
    give_feedback(rt, memory.session, good=False)
    after = explain(rt, memory.id)
    assert after.importance < before.importance
    assert after.parts["feedback"] < 0
    for _ in range(2):
        give_feedback(rt, memory.session, good=True)
    assert explain(rt, memory.id).parts["feedback"] > 0


def test_an_approval_speaks_for_the_proposal_and_what_it_rests_on(rt: Runtime, drafts: list[Built]) -> None:
    built = next(each for each in drafts if each.review)
    decide(rt, built.review, DecisionKind.APPROVE, by="ada", confirm_risk=True)
    proposals = {
        name: page for name, page in pages(rt, records.PROPOSAL).items() if page.content["skill"] == built.skill
    }
    (proposal,) = proposals.values()
    said = explain(rt, proposal.id).parts["review"]
    assert said > 0
    rests_on = explain(rt, proposal.provenance.references[0]).parts["review"]
    assert 0 < rests_on < said


def test_a_rejection_speaks_against_the_proposal_and_not_against_what_was_seen(
    rt: Runtime, drafts: list[Built]
) -> None:
    built = next(each for each in drafts if each.review)
    decide(rt, built.review, DecisionKind.REJECT, by="ada", comment="not useful")
    (proposal,) = (page for page in pages(rt, records.PROPOSAL).values() if page.content["skill"] == built.skill)
    assert explain(rt, proposal.id).parts["review"] < 0
    assert "review" not in explain(rt, proposal.provenance.references[0]).parts
