"""Pages that were kept elsewhere until now are recorded at once, once, and count like those of live calls."""

import pytest

from instar.memstore import FaultKind, Harness, PageDraft, PageType, Rejected, State, open_store
from instar.memstore.testing import ALICE, step

SCOPE = "local/desk"


def finished(page_id: str, order: int, value: str = "sent") -> PageDraft:
    content = {"tool": "get_order", "arguments": {"order": order}, "call": page_id, "status": "ok", "value": value}
    return PageDraft(id=page_id, kind="tool-call", type=PageType.EVIDENCE, content=content, state=State.SUCCESS)  # type: ignore[arg-type]


def test_recording_the_same_pages_again_changes_nothing() -> None:
    with open_store("memory:") as store:
        harness = Harness(store, ALICE, scope=SCOPE, session="s1", budget=500)
        harness.session_start()
        drafts = [finished("s1.a", 1), finished("s1.b", 2)]
        assert harness.record(drafts).committed == {"s1.a": 1, "s1.b": 1}
        again = harness.record(drafts)
        assert set(again.unchanged) == {"s1.a", "s1.b"}
        assert store.count(ALICE, scope=SCOPE, session="s1") == 2
        assert {"s1.a", "s1.b"} <= harness.assemble().levels.keys()
        assert harness.ledger.alerts == 0


def test_a_recorded_repeat_is_an_alert_while_its_result_is_at_hand_and_a_fault_when_it_is_not() -> None:
    with open_store("memory:") as store:
        harness = Harness(store, ALICE, scope=SCOPE, session="s1", budget=500)
        harness.session_start()
        harness.record([finished("s1.a", 1)])
        harness.assemble()
        harness.record([finished("s1.b", 1)])
        assert (harness.ledger.alerts, harness.ledger.faults[FaultKind.DUPLICATE_TOOL]) == (1, 0)
        harness.compact()
        harness.record([finished("s1.c", 1)])
        assert [fault.kind for fault in store.faults(ALICE, scope=SCOPE)] == [FaultKind.DUPLICATE_TOOL]


def test_a_repeat_of_what_no_context_had_to_hold_yet_is_an_alert() -> None:
    with open_store("memory:") as store:
        harness = Harness(store, ALICE, scope=SCOPE, session="s1", budget=500)
        harness.session_start()
        harness.record([finished("s1.a", 1), finished("s1.b", 1)])
        assert (harness.ledger.alerts, dict(harness.ledger.faults)) == (1, {})


def test_one_page_that_cannot_be_recorded_leaves_all_unrecorded() -> None:
    with open_store("memory:") as store:
        harness = Harness(store, ALICE, scope=SCOPE, session="s1", budget=500)
        harness.session_start()
        with pytest.raises(Rejected):
            harness.record([finished("s1.a", 1), step(parent="nowhere")])
        assert store.count(ALICE, scope=SCOPE) == 0
