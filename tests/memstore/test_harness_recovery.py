"""What a session staged is durable: it survives crashes, is committed or reported, and can be rolled back."""

import pytest

from instar.memstore import (
    FaultKind,
    Harness,
    InvalidRequest,
    JournalStatus,
    PageDraft,
    PageType,
    Rejected,
    ScopeDenied,
    Store,
)
from instar.memstore.testing import ALICE, BOB, GITHUB, step, write
from instar.memstore.testing_harness import SCOPE, call, controllable, rule, started


def test_what_was_staged_survives_the_death_of_the_process(store: Store) -> None:
    harness = started(store)
    harness.remember(rule())
    done = call(harness, 1)
    harness.tool_start("get_order", {"order": 2}, call_id="c2")
    assert store.count(ALICE, scope=SCOPE) == 0  # staged has no effect
    assert {line.status for line in store.journal(ALICE)} == {JournalStatus.STAGED}
    del harness

    resumed = Harness(store, ALICE, scope=SCOPE, session="s1", budget=2000)
    start = resumed.session_start()
    assert len(start.recovered) == 3
    assert start.lost == ()
    assert store.count(ALICE, scope=SCOPE) == 3
    assert resumed.tool_start("get_order", {"order": 1}, call_id="c3").earlier == done
    resumed.tool_result("c2", "late but there")
    resumed.close()
    assert resumed.session_start().recovered == {}
    assert controllable(resumed) == 1  # the repeated call: its result was in no context of this process yet


def test_a_staged_entry_that_became_unsound_is_reported_and_kept_in_the_journal(store: Store) -> None:
    write(store, step(id="shared", content={"a": 1}, session="s1"), scope=SCOPE)
    harness = started(store)
    harness.revise("shared", {"a": 2})
    keep = harness.remember(rule())
    with store.writeback(ALICE, scope=SCOPE) as batch:
        batch.merge("shared", {"a": 3}, read=1)
    del harness
    resumed = Harness(store, ALICE, scope=SCOPE, session="s1", budget=500)
    start = resumed.session_start()
    assert [rejection.page_id for rejection in start.lost] == ["shared"]
    assert start.recovered == {keep: 1}
    assert resumed.ledger.faults[FaultKind.FLUSH_MISS] == 1
    rejected = [line for line in store.journal(ALICE) if line.status is JournalStatus.REJECTED]
    assert [line.value for line in rejected] == ['{"a":2}']


def test_a_staged_entry_that_became_unsound_does_not_stop_the_session(store: Store) -> None:
    write(store, step(id="shared", content={"a": 1}, session="s1"), scope=SCOPE)
    harness = started(store)
    harness.revise("shared", {"a": 2})
    with store.writeback(ALICE, scope=SCOPE) as batch:
        batch.merge("shared", {"a": 3}, read=1)
    later = harness.remember(rule())
    harness.close()
    assert store.get_many(ALICE, ["shared", later])["shared"].content == {"a": 3}
    assert store.get(ALICE, later) is not None
    assert [(fault.kind, fault.pages) for fault in store.faults(ALICE)] == [(FaultKind.FLUSH_MISS, ("shared",))]


def test_nobody_without_a_grant_flushes_what_another_staged(store: Store) -> None:
    page_id = started(store).remember(rule())
    with pytest.raises(ScopeDenied):
        store.flush(BOB, scope=SCOPE, session="s1")
    assert store.flush(ALICE, scope=SCOPE, session="s1").receipt.committed == {page_id: 1}


def test_what_cannot_be_committed_is_not_staged(store: Store) -> None:
    harness = started(store)
    with pytest.raises(Rejected):
        harness.remember(PageDraft(kind="note", type=PageType.CONSTRAINT, content={}, parent="nowhere"))
    harness.remember(rule())
    harness.close()
    assert store.count(ALICE, scope=SCOPE) == 1


def test_no_secret_is_staged(store: Store) -> None:
    harness = started(store)
    call(harness, 1, {"note": f"use {GITHUB}"})
    harness.tool_start("login", {"password": "hunter2!"}, call_id="x")
    with store._backend.read() as view:
        waiting = view.staged(SCOPE, "s1")
    assert len(waiting) == 3
    assert GITHUB not in repr(waiting)
    assert "hunter2!" not in repr(waiting)


def test_rollback_hides_what_came_later_and_brings_back_what_changed(store: Store) -> None:
    harness = started(store)
    plan = harness.remember(PageDraft(kind="plan", type=PageType.PLAN, content={"goal": "ship", "step": 1}))
    early = call(harness, 1)
    mark = harness.checkpoint("before the change")
    harness.revise(plan, {"step": 2})
    late = call(harness, 2)
    harness.post_model("done")
    harness.rollback(mark)
    context = harness.assemble()
    assert late not in context.levels
    assert {plan, early} <= context.levels.keys()
    page = store.get_many(ALICE, [plan])[plan]
    assert (page.version, page.content) == (3, {"goal": "ship", "step": 1})
    assert [kept.content["step"] for kept in store.history(ALICE, plan)] == [1, 2, 1]
    hidden = store.get(ALICE, late)
    assert hidden is not None
    assert hidden.hidden
    assert late not in [kept.id for kept in store.find(ALICE, scope=SCOPE)]
    assert harness.tool_start("get_order", {"order": 2}, call_id="again").earlier is None
    with pytest.raises(InvalidRequest):
        harness.rollback(plan)
    assert store.check() == []
