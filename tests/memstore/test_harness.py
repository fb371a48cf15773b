"""The harness keeps an agent's memory by the contract, through compaction, resets, crashes and rollbacks."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from instar.memstore import (
    FaultKind,
    Harness,
    InvalidRequest,
    JournalStatus,
    Level,
    PageDraft,
    PageType,
    Rejected,
    ScopeDenied,
    State,
    Store,
    Templates,
    ToolTemplate,
    infer_template,
    open_store,
    replay,
)
from instar.memstore.backend import Transaction, View
from instar.memstore.memory import MemoryBackend
from instar.memstore.represent import Representer
from instar.memstore.testing import ALICE, BOB, GITHUB, step, write
from instar.memstore.tokens import count_tokens

SCOPE = "local/desk"
LONG = "The shipment was delayed because of a storm at the port. " * 30


@pytest.fixture(params=["memory:", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    address = request.param if request.param == "memory:" else f"sqlite:///{tmp_path / 'store.db'}"
    with open_store(address) as store:
        yield store


def started(store: Store, *, budget: int = 2000, session: str = "s1", templates: Templates | None = None) -> Harness:
    harness = Harness(store, ALICE, scope=SCOPE, session=session, budget=budget, templates=templates)
    harness.session_start()
    return harness


def rule(text: str = "Never ship to a closed address.") -> PageDraft:
    return PageDraft(kind="rule", type=PageType.CONSTRAINT, content={"rule": text})


def call(harness: Harness, number: int, value: object = LONG) -> str:
    harness.tool_start("get_order", {"order": number}, call_id=f"c{number}")
    return harness.tool_result(f"c{number}", value)  # type: ignore[arg-type]


def controllable(harness: Harness) -> int:
    return sum(count for kind, count in harness.ledger.faults.items() if kind.controllable)


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


def test_a_session_sees_the_standing_pages_of_the_scopes_above_it_and_no_others(store: Store) -> None:
    write(store, PageDraft(kind="rule", type=PageType.CONSTRAINT, id="org", text="For all."), scope="local")
    write(store, PageDraft(kind="rule", type=PageType.CONSTRAINT, id="other", text="Not here."), scope="local/other")
    write(store, step(id="evidence", text="Of another session."), scope="local")
    text = started(store).assemble().text
    assert "For all." in text
    assert "Not here." not in text
    assert "another session" not in text


def test_a_template_decides_what_survives_and_what_counts_as_valid(store: Store) -> None:
    template = ToolTemplate("get_order", ("order",), ("status", "items.0.sku"), required=("status",))
    harness = started(store, templates=Templates({"get_order": template}))
    good = call(harness, 1, {"status": "sent", "items": [{"sku": "A1"}], "note": LONG})
    bad = call(harness, 2, {"items": []})
    harness.close()
    pages = store.get_many(ALICE, [good, bad])
    assert (pages[good].state, pages[bad].state) == (State.SUCCESS, State.INTERMEDIATE)
    assert pages[bad].content["problem"] == "the result lacks status"
    harness = started(store, session="s2")
    assert harness.tool_start("get_order", {"order": 2}, call_id="c").earlier is None


def test_a_template_is_inferred_from_calls() -> None:
    template = infer_template(
        "t",
        [{"id": n, "filter": {"a": 1}} for n in range(5)],
        [{"status": "ok", "body": "x" * 500, "page": n} for n in range(4)] + [{"status": "ok"}],
    )
    assert (template.arguments, template.result, template.required) == (("id",), ("status",), ("status",))


def test_a_run_can_be_replayed_and_a_changed_trace_is_found_out(store: Store) -> None:
    harness = started(store, budget=300)
    harness.remember(rule())
    for number in range(6):
        page = call(harness, number)
        harness.assemble({page: Level.STRUCTURED})
        harness.post_model(f"turn {number}")
    harness.close()
    lines = store.trace(ALICE, harness.run)
    assert sum('["assemble"' in line for line in lines) == 6
    assert LONG[:40] not in "".join(lines)
    assert replay(lines) is None
    changed = [line.replace('"assemble",[300', '"assemble",[290') for line in lines]
    difference = replay(changed)
    assert difference is not None
    assert difference.recorded != difference.replayed
    assert difference.policy is None
    older = replay([changed[0].replace('["run",[', '["run",[90'), *changed[1:]])
    assert older is not None
    assert older.policy is not None
    assert store.trace(ALICE, "run-nowhere") == []


def test_runs_are_listed_and_read_under_the_grants_only(store: Store) -> None:
    for session in ("s-first", "s-second"):
        harness = Harness(store, ALICE, scope="local/desk", session=session, budget=300)
        harness.session_start()
        harness.close()
    assert [run.session for run in store.runs(ALICE)] == ["s-second", "s-first"]
    assert [run.session for run in store.runs(ALICE, limit=1)] == ["s-second"]
    assert store.runs(BOB) == []
    with pytest.raises(ScopeDenied):
        store.trace(BOB, harness.run)


@pytest.mark.parametrize("line", ["", "[]", '["add",["p"]]', '["assemble",["x",{},[]]]', '["burn","p"]', '["add",7]'])
def test_what_is_no_trace_is_not_replayed(line: str) -> None:
    with pytest.raises(InvalidRequest, match="line 1"):
        replay([line])


class CountingBackend:
    """Counts the transactions that pass through it."""

    def __init__(self) -> None:
        self._inner, self.transactions = MemoryBackend(), 0

    def read(self) -> AbstractContextManager[View]:
        self.transactions += 1
        return self._inner.read()

    def write(self) -> AbstractContextManager[Transaction]:
        self.transactions += 1
        return self._inner.write()

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


def test_key_fields_of_a_template_survive_in_the_structured_form() -> None:
    templates = Templates({"get_order": ToolTemplate("get_order", ("order",), ("status", "items.0.sku"))})
    with open_store("memory:", representer=Representer(fields=templates)) as store:
        harness = started(store, templates=templates)
        page_id = call(harness, 1, {"status": "sent", "items": [{"sku": "A1"}], "note": LONG})
        harness.close()
        structured = store.get_many(ALICE, [page_id])[page_id].forms.structured
    _, _, fields = structured.partition("\n")
    assert json.loads(fields)["value"] == {"status": "sent", "items.0.sku": "A1"}
    assert json.loads(fields)["arguments"] == {"order": 1}
