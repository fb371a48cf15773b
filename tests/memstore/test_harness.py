"""The harness keeps an agent's memory by the contract, through compaction and resets, and counts what went wrong."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

import pytest

from instar.memstore import FaultKind, Harness, InvalidRequest, Level, PageDraft, PageType, ScopeDenied, State, Store
from instar.memstore.backend import Transaction, View
from instar.memstore.memory import MemoryBackend
from instar.memstore.testing import ALICE, BOB, step, write
from instar.memstore.testing_harness import LONG, SCOPE, call, controllable, rule, started
from instar.memstore.tokens import count_tokens


def test_what_was_recorded_is_in_the_next_context_and_within_the_budget(store: Store) -> None:
    harness = started(store, budget=400)
    harness.remember(rule())
    pages = [call(harness, number) for number in range(5)]
    harness.post_model("I will wait.")
    context = harness.assemble()
    assert set(pages) <= context.levels.keys()
    assert "Never ship to a closed address." in context.text
    assert count_tokens(context.text) <= context.tokens <= 400
    assert context.faults == ()


def test_standing_rules_come_first_and_the_rest_in_the_order_of_writing(store: Store) -> None:
    harness = started(store)
    first = call(harness, 1, "first")
    harness.post_model("said")
    harness.remember(rule())
    second = call(harness, 2, "second")
    text = harness.assemble().text
    assert text.index("Never ship") < text.index("first") < text.index("said") < text.index("second")
    assert first != second


def test_results_are_matched_to_their_calls_also_in_parallel(store: Store) -> None:
    harness = started(store)
    for number in (1, 2, 3):
        harness.tool_start("get_order", {"order": number}, call_id=f"c{number}")
    for number in (2, 3, 1):
        harness.tool_result(f"c{number}", {"order": number})
    harness.close()
    pages = list(store.find(ALICE, scope=SCOPE, kind="tool-call"))
    assert [page.content["arguments"] for page in pages] == [{"order": n} for n in (1, 2, 3)]
    assert [page.content["value"] for page in pages] == [{"order": n} for n in (1, 2, 3)]
    assert {page.state for page in pages} == {State.SUCCESS}


def test_a_result_without_a_call_and_a_call_that_is_open_are_refused(store: Store) -> None:
    harness = started(store)
    with pytest.raises(InvalidRequest):
        harness.tool_result("nobody", 1)
    harness.tool_start("t", {}, call_id="c")
    with pytest.raises(InvalidRequest):
        harness.tool_start("t", {}, call_id="c")


def test_nothing_works_before_the_session_starts_or_out_of_grant(store: Store) -> None:
    harness = Harness(store, ALICE, scope=SCOPE, session="s", budget=100)
    for use in (harness.assemble, harness.compact, harness.reset, harness.checkpoint):
        with pytest.raises(InvalidRequest):
            use()
    with pytest.raises(ScopeDenied):
        Harness(store, BOB, scope=SCOPE, session="s", budget=100).session_start()


def test_compaction_and_reset_lose_nothing_and_keep_the_rules_resident(store: Store) -> None:
    harness = started(store, budget=500)
    harness.remember(PageDraft(kind="boot", type=PageType.BOOTSTRAP, text="You are a careful clerk."))
    harness.remember(rule())
    pages = [call(harness, number) for number in range(8)]
    for destroy in (harness.compact, harness.reset):
        harness.assemble()
        destroy()
        assert store.count(ALICE, scope=SCOPE, session="s1") == 10
        context = harness.assemble()
        assert "careful clerk" in context.text
        assert "closed address" in context.text
        assert set(pages) <= context.levels.keys()
    harness.close()
    assert controllable(harness) == 0
    assert list(store.faults(ALICE)) == []


def test_a_demanded_page_is_given_in_full(store: Store) -> None:
    harness = started(store, budget=1200)
    pages = [call(harness, number) for number in range(6)]
    context = harness.assemble({pages[3]: Level.FULL})
    assert context.levels[pages[3]] is Level.FULL
    assert harness.assemble({pages[3]: Level.FULL}).faults == ()
    assert harness.ledger.hits == 1
    with pytest.raises(InvalidRequest):
        harness.assemble({"nowhere": Level.FULL})


def test_floors_that_do_not_fit_are_a_fault_that_names_the_pages(store: Store) -> None:
    harness = started(store, budget=60)
    harness.remember(rule())
    for number in range(10):
        call(harness, number)
    context = harness.assemble()
    assert [fault.kind for fault in context.faults] == [FaultKind.FLOOR_INFEASIBLE]
    assert len(context.faults[0].pages) + len(context.levels) == 11
    evicted = context.faults[0].pages[0]
    again = harness.assemble({evicted: Level.POINTER})
    assert FaultKind.REFETCH not in [fault.kind for fault in again.faults]  # it was never in a context
    harness.close()
    assert next(fault.kind for fault in store.faults(ALICE, session="s1")) is FaultKind.FLOOR_INFEASIBLE


def test_a_page_that_was_evicted_and_is_demanded_is_a_refetch(store: Store) -> None:
    harness = started(store, budget=600)
    pages = [call(harness, number) for number in range(3)]
    harness.assemble()
    harness.budget = 45
    assert len(harness.assemble().levels) == 1
    kept = harness.assemble().levels
    evicted = next(page for page in pages if page not in kept)
    harness.budget = 600
    context = harness.assemble({evicted: Level.POINTER})
    assert [(fault.kind, fault.pages) for fault in context.faults] == [(FaultKind.REFETCH, (evicted,))]


def test_a_hard_pin_that_does_not_fit_is_a_pinned_miss_and_after_a_reset_a_bootstrap_miss(store: Store) -> None:
    harness = started(store, budget=20)
    harness.remember(PageDraft(kind="boot", type=PageType.BOOTSTRAP, text=LONG))
    kinds = [fault.kind for fault in harness.assemble().faults]
    assert kinds == [FaultKind.FLOOR_INFEASIBLE, FaultKind.PINNED_MISS, FaultKind.BOOTSTRAP_MISS]
    assert [fault.kind for fault in harness.assemble().faults] == kinds[:2]
    harness.reset()
    assert [fault.kind for fault in harness.assemble().faults] == kinds


def test_a_repeated_call_is_an_alert_while_its_result_is_at_hand_and_a_fault_when_not(store: Store) -> None:
    harness = started(store, budget=2000)
    page = call(harness, 1, "done")
    harness.assemble()
    again = harness.tool_start("get_order", {"order": 1}, call_id="again")
    assert (again.earlier, again.resident) == (page, True)
    assert (harness.ledger.alerts, controllable(harness)) == (1, 0)
    harness.tool_result("again", None, error="refused")
    harness.budget = 10
    harness.assemble()
    lost = harness.tool_start("get_order", {"order": 1}, call_id="lost")
    assert (lost.earlier, lost.resident) == (page, False)
    assert harness.ledger.faults[FaultKind.DUPLICATE_TOOL] == 1
    assert harness.ledger.thrash > 0


def test_a_failed_call_may_be_repeated(store: Store) -> None:
    harness = started(store)
    harness.tool_start("t", {"a": 1, "b": 2}, call_id="c1")
    harness.tool_result("c1", None, error="timeout")
    assert harness.tool_start("t", {"b": 2, "a": 1}, call_id="c2").earlier is None


def test_an_empty_recall_that_hides_a_failure_is_a_fault_and_no_match_is_not(store: Store) -> None:
    harness = started(store)
    for hits, status in ((0, "no-match"), (3, "degraded"), (0, "denied"), (0, "backend-error")):
        harness.recalled(hits, status)
    harness.close()
    assert [fault.kind for fault in store.faults(ALICE)] == [FaultKind.SILENT_RECALL] * 2


def test_a_session_sees_the_standing_pages_of_the_scopes_above_it_and_no_others(store: Store) -> None:
    write(store, PageDraft(kind="rule", type=PageType.CONSTRAINT, id="org", text="For all."), scope="local")
    write(store, PageDraft(kind="rule", type=PageType.CONSTRAINT, id="other", text="Not here."), scope="local/other")
    write(store, step(id="evidence", text="Of another session."), scope="local")
    text = started(store).assemble().text
    assert "For all." in text
    assert "Not here." not in text
    assert "another session" not in text


T = TypeVar("T")


class CountingBackend:
    """Counts the transactions that pass through it."""

    def __init__(self) -> None:
        self._inner, self.transactions = MemoryBackend(), 0

    def read(self) -> AbstractContextManager[View]:
        self.transactions += 1
        return self._inner.read()

    def write(self, work: Callable[[Transaction], T]) -> T:
        self.transactions += 1
        return self._inner.write(work)

    def check(self) -> list[str]:
        return self._inner.check()

    def close(self) -> None:
        self._inner.close()


def test_assembly_touches_no_database() -> None:
    backend = CountingBackend()
    harness = started(Store(backend))
    page = call(harness, 1)
    before = backend.transactions
    assert harness.assemble({page: Level.FULL}).levels[page] is Level.FULL
    assert backend.transactions == before
    harness.post_model("said")
    assert backend.transactions > before
