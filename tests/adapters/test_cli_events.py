"""Telling Instar what happened, and reading the configured sources, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


def log(tmp_path: Path, name: str = "a") -> Path:
    folder = tmp_path / "logs"
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}.jsonl"
    messages = [{"role": "user", "content": "hello"}]
    file.write_text(json.dumps({"id": name, "task": name, "project": "desk", "messages": messages}) + "\n")
    return file


def test_an_event_is_kept_and_shown_as_waiting(run, tmp_path) -> None:
    ran = run("event", "task.failed", "--agent", "bot", "--cause", "search", "--note", "no answer", "--json")
    assert ran.code == 0
    shown = run("pages", "show", ran.json["event"], "--json").json
    assert shown["content"]["name"] == "instar.task.failed"
    assert run("status", "--json").json["waiting_events"] == 1


def test_feedback_is_kept_under_its_session(run, tmp_path) -> None:
    assert run("ingest", log(tmp_path)).code == 0
    assert run("feedback", "a", "bad", "--note", "wrong order", "--by", "ada").code == 0
    assert run("status", "--json").json["waiting_events"] == 1
    assert run("feedback", "a", "good").code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["event", "task.exploded"], 3, "instar.task.failed"),
        (["event", "task.failed", "--session", "nowhere"], 1, "No session"),
        (["feedback", "nowhere", "good"], 1, "No session"),
        (["feedback", "nowhere", "maybe"], 2, "neither good nor bad"),
        (["ingest"], 3, "[[sources]]"),
    ],
)
def test_what_cannot_be_kept_is_one_line_with_its_remedy(
    run, expect_one_line, monkeypatch, tmp_path, *, arguments: list[str], code: int, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert words in expect_one_line(run(*arguments), code)


def test_ingest_without_paths_reads_the_sources_once(run, monkeypatch, tmp_path) -> None:
    log(tmp_path)
    monkeypatch.setenv("INSTAR_SOURCES", str(tmp_path / "logs"))
    first, second = run("ingest", "--json").json, run("ingest", "--json").json
    assert (first["new"], second["sessions"], second["files_unchanged"]) == (1, 0, 1)


def test_a_dry_run_reads_the_sources_and_remembers_nothing(run, monkeypatch, tmp_path) -> None:
    log(tmp_path)
    monkeypatch.setenv("INSTAR_SOURCES", str(tmp_path / "logs"))
    assert run("ingest", "--dry-run", "--json").json["new"] == 1
    assert run("ingest", "--json").json["new"] == 1
