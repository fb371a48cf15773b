"""Every decision of a run is recorded, and can be decided again."""

import pytest

from instar.memstore import Harness, InvalidRequest, Level, ScopeDenied, Store, replay
from instar.memstore.testing import ALICE, BOB
from instar.memstore.testing_harness import LONG, call, rule, started


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
