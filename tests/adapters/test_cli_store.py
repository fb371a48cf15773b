"""The journal, the faults and the replay of a run, as a user reads them."""

import json
import sqlite3
from pathlib import Path

import pytest

from instar.memstore import Harness, Level, PageDraft, PageType, Principal, Rejected, open_store

BY = Principal("agent", ("local",))


@pytest.fixture
def recorded(tmp_path: Path) -> str:
    """A home in which one session ran, with one refused write and one fault; returns the name of its run."""
    home = tmp_path / "home"
    home.mkdir()
    with open_store(f"sqlite:///{home / 'store.db'}") as store:
        harness = Harness(store, BY, scope="local/desk", session="s1", budget=200)
        harness.session_start()
        for number in range(4):
            harness.tool_start("get_order", {"order": number}, call_id=f"c{number}")
            page = harness.tool_result(f"c{number}", {"note": "the parcel left the depot " * 20, "number": number})
            harness.assemble({page: Level.STRUCTURED})
        harness.recalled(0, "denied")
        with pytest.raises(Rejected):
            harness.remember(PageDraft(kind="BAD KIND", type=PageType.PLAN, content={"goal": "ship"}))
        harness.close()
    return harness.run


def test_a_run_is_listed_and_decided_again_the_same(run, recorded) -> None:
    listed = run("replay", "--json")
    assert [(row["name"], row["session"], row["scope"]) for row in listed.json] == [(recorded, "s1", "local/desk")]
    again = run("replay", recorded, "--json")
    assert (again.code, again.json) == (0, {"run": recorded, "decisions": 4, "difference": None})
    assert "4 decisions, every one the same" in run("replay", recorded).out


def test_the_first_difference_of_a_changed_trace_is_shown(run, recorded, tmp_path) -> None:
    with sqlite3.connect(tmp_path / "home" / "store.db") as file:
        changed = """UPDATE traces SET line = replace(line, '["assemble",[200', '["assemble",[201') WHERE seq =
                     (SELECT max(seq) FROM traces WHERE line LIKE '["assemble"%')"""
        assert file.execute(changed).rowcount == 1
        file.execute("""UPDATE traces SET line = replace(line, ',2]', ',1]') WHERE line LIKE '["assemble",[201%'""")
    file.close()
    differs = run("replay", recorded, "--json")
    assert differs.code == 1
    difference = differs.json["difference"]
    assert json.loads(difference["recorded"])[0] == json.loads(difference["replayed"])[0] == "assemble"
    assert f"line {difference['line']} differs" in run("replay", recorded).out


def test_a_run_that_is_not_there_is_named(run, recorded) -> None:
    ran = run("replay", "run-nowhere")
    assert ran.code == 1
    assert "run-nowhere" in ran.err
    assert "instar replay" in ran.err


def test_the_journal_can_be_narrowed_and_continued(run, recorded) -> None:
    everything = run("journal", "--limit", "500", "--json").json
    refused = run("journal", "--status", "rejected", "--json").json
    assert [entry["code"] for entry in refused] == ["SCHEMA"]
    assert run("journal", "--code", "SCHEMA", "--json").json == refused
    page = everything[0]["page_id"]
    assert {entry["page_id"] for entry in run("journal", "--page", page, "--json").json} == {page}
    first = run("journal", "--limit", "2")
    assert f"--since {everything[1]['seq']}" in first.out
    rest = run("journal", "--since", everything[1]["seq"], "--limit", "500", "--json").json
    assert rest == everything[2:]


def test_faults_can_be_narrowed(run, recorded) -> None:
    found = run("faults", "--kind", "silent-recall", "--json").json
    assert [(fault["session"], fault["pages"]) for fault in found] == [("s1", [])]
    assert run("faults", "--session", "s2", "--json").json == []
    assert run("faults", "--since", found[0]["seq"], "--kind", "silent-recall", "--json").json == []
