"""`instar recall`, `instar reindex` and `instar pages explain`, as a user calls them."""

from __future__ import annotations

from pathlib import Path

import pytest

from instar.adapters.capture import capture

SAMPLES = Path(__file__).parents[2] / "examples" / "order_desk" / "sessions"


@pytest.fixture
def filled(run):  # type: ignore[no-untyped-def]
    assert run("ingest", SAMPLES).code == 0
    assert run("reindex").code == 0  # a search brings in a part only, on a busy machine
    return run


def test_recall_finds_what_was_said_and_explain_says_why_it_counts(filled) -> None:
    ran = filled("recall", "order", "--kind", "step", "--limit", "3", "--json")
    assert ran.code == 0
    assert ran.json["status"] == "hit"
    assert len(ran.json["hits"]) == 3
    first = ran.json["hits"][0]
    assert {"support", "age_days", "contradictions", "superseded_by"} <= set(first)
    told = filled("pages", "explain", first["id"], "--json")
    assert told.json["parts"]["written"] == 0.5
    assert told.json["indexed"] is True
    shown = filled("pages", "explain", first["id"])
    assert "importance" in shown.out


def test_a_budget_gives_one_text_within_it(filled) -> None:
    ran = filled("recall", "order", "--budget", "200", "--json")
    assert 0 < ran.json["context"]["tokens"] <= 200
    assert ran.json["context"]["text"].startswith("[recalled hit")


def test_a_time_in_a_query_is_understood_and_said(filled) -> None:
    ran = filled("recall", "order today")
    assert ran.code == 0
    assert "understood: between" in ran.err


def test_nothing_found_is_said_and_has_its_exit_code(filled) -> None:
    ran = filled("recall", "tool:no_such_tool order", "--kind", "nothing")
    assert (ran.code, ran.out.strip()) == (1, "no-match: nothing found")


def test_reindex_restores_a_lost_index(filled, tmp_path: Path) -> None:
    before = filled("recall", "order", "--json").json["hits"]
    for file in (tmp_path / "home" / "index").glob("*.db*"):
        file.unlink()
    assert "vectors by wordllama-256" in filled("reindex").out
    assert [hit["id"] for hit in filled("recall", "order", "--json").json["hits"]] == [hit["id"] for hit in before]


def test_a_user_reads_corrects_and_deletes_the_profile(run, expect_one_line) -> None:
    assert run("profile", "set", "answer style", "short").code == 0
    assert run("profile", "set", "answer style", "long", "--json").json["version"] == 2
    (trait,) = run("profile", "list", "--json").json
    assert (trait["subject"], trait["value"], trait["stated_by"]) == ("answer style", "long", "instar")
    assert run("profile", "delete", "answer style").out.strip() == "erased"
    assert run("profile", "list").out.strip() == "Nothing is known of you."
    assert "answer style" in expect_one_line(run("profile", "delete", "answer style"), 1)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["recall", "x", "--since", "9q"], 3, "--since"),
        (["pages", "explain", "nobody"], 1, "nobody"),
        (["recall", "x", "--limit", "0"], 2, "greater than or equal to 1"),
    ],
)
def test_what_was_wrong_is_named(run, expect_one_line, arguments, code, says) -> None:
    assert says in expect_one_line(run(*arguments), code)


def test_an_unknown_embedder_is_named_with_what_there_is(run, expect_one_line, monkeypatch) -> None:
    monkeypatch.setenv("INSTAR_EMBEDDER", "magic")
    line = expect_one_line(run("recall", "x"), 3)
    assert "magic" in line
    assert "wordllama" in line


def test_maintenance_is_previewed_done_and_repeated_without_harm(filled) -> None:
    preview = filled("maintain", "--dry-run", "--json")
    assert (preview.code, preview.json["dry_run"], preview.json["expired"]) == (0, True, 0)
    done = filled("maintain", "--json")
    assert (done.code, done.json["trouble"], done.json["index_lag"]) == (0, [], 0)
    assert "statements compared" in filled("maintain").out


def test_a_task_begins_with_what_was_learned(filled) -> None:
    assert filled("reflect").code == 0
    ran = filled("recall", "refund an order", "--task", "--json")
    assert ran.code == 0
    assert ran.json["hits"][0]["kind"] in ("memory", "proposal")
    refused = filled("recall", "refund an order", "--task", "--kind", "step")
    assert (refused.code, "--task" in refused.err) == (3, True)


def test_what_was_fetched_ahead_is_shown_with_what_was_of_use(run, tmp_path: Path) -> None:
    assert "Nothing was fetched ahead" in run("pages", "ahead").out
    with capture("clerk", project="shop", session="s1", home=tmp_path / "home", task="refund") as made:
        made.message("Ask ledger-desk-7 about every refund.", speaker="user")
    with capture("clerk", project="shop", session="s2", home=tmp_path / "home", task="refund", prime=True) as made:
        assert "ledger-desk-7" in made.context()
        noted = made.call("ask", {"whom": "ledger-desk-7"})
        made.result(noted.call_id, "yes")
    assert run("pages", "ahead", "--json").json["local/shop"]["task"]["used"] >= 1
    shown = run("pages", "ahead")
    assert shown.code == 0
    assert "local/shop" in shown.out
