"""What the configured sources give: everything once, whatever grows, disappears or comes back."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from instar.core.cursors import Seen, look_at
from instar.core.learn import window
from instar.core.progress import Progress, listening
from instar.core.runtime import Runtime, runtime
from instar.core.settings import Settings, Source
from instar.core.sources import ingest_sources

Write = Callable[..., Path]
OLD = time.time() - 3600


def chat(key: str, words: str = "hello") -> str:
    return json.dumps({"id": key, "task": key, "project": "desk", "messages": [{"role": "user", "content": words}]})


def put(file: Path, *lines: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    os.utime(file, (OLD, OLD))
    return file


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return tmp_path / "logs"


@pytest.fixture
def rt(tmp_path: Path, logs: Path) -> Iterator[Runtime]:
    logs.mkdir()
    with runtime(Settings(home=tmp_path / "home", sources=(Source(paths=(str(logs),)),))) as opened:
        yield opened


def keys(rt: Runtime) -> set[str]:
    return {session.key for session in window(rt, "local").sessions}


def test_what_was_read_is_not_read_again(rt: Runtime, logs: Path) -> None:
    put(logs / "a.jsonl", chat("a1"), chat("a2"))
    first, second = ingest_sources(rt), ingest_sources(rt)
    assert (first.new, first.files_unchanged) == (2, 0)
    assert (second.sessions, second.files_unchanged) == (0, 1)


def test_a_file_that_grew_gives_what_is_new(rt: Runtime, logs: Path) -> None:
    file = put(logs / "a.jsonl", chat("a1"))
    ingest_sources(rt)
    with file.open("a", encoding="utf-8") as appended:
        appended.write(chat("a2") + "\n")
    report = ingest_sources(rt)
    assert (report.new, report.unchanged) == (1, 1)
    assert keys(rt) == {"a1", "a2"}


def test_other_content_under_the_same_size_and_time_is_noticed_while_the_time_is_fresh(
    rt: Runtime, logs: Path
) -> None:
    file = put(logs / "a.jsonl", chat("a1"))
    now = time.time_ns()
    os.utime(file, ns=(now, now))
    ingest_sources(rt)
    file.write_text(chat("b1") + "\n", encoding="utf-8")
    os.utime(file, ns=(now, now))
    ingest_sources(rt)
    assert keys(rt) == {"a1", "b1"}


def test_a_touched_file_is_recognised_by_its_content(rt: Runtime, logs: Path) -> None:
    file = put(logs / "a.jsonl", chat("a1"))
    ingest_sources(rt)
    os.utime(file, (OLD + 60, OLD + 60))
    report = ingest_sources(rt)
    assert (report.sessions, report.files_unchanged) == (0, 1)


def test_an_old_unchanged_file_is_not_even_opened(tmp_path: Path) -> None:
    file = put(tmp_path / "a.jsonl", chat("a1"))
    seen = look_at(file, None)
    assert seen is not None
    file.chmod(0)
    known = Seen(size=seen.size, changed_ns=seen.changed_ns, sha256="as recorded", settled=True)
    assert look_at(file, known) == known


def test_one_changed_file_brings_those_beside_it_and_no_other_folder(rt: Runtime, logs: Path) -> None:
    file = put(logs / "one" / "a.jsonl", chat("a1"))
    put(logs / "one" / "b.jsonl", chat("b1"))
    put(logs / "two" / "c.jsonl", chat("c1"))
    ingest_sources(rt)
    put(file, chat("a1"), chat("a2"))
    report = ingest_sources(rt)
    assert (report.sessions, report.new, report.files_unchanged) == (3, 1, 1)


def test_a_pattern_takes_only_what_it_matches(rt: Runtime, logs: Path) -> None:
    put(logs / "deep" / "er" / "a.jsonl", chat("a1"))
    put(logs / "b.txt", chat("b1"))
    only = replace(rt, settings=rt.settings.model_copy(update={"sources": source(f"{logs}/**/*.jsonl")}))
    assert ingest_sources(only).new == 1
    assert keys(rt) == {"a1"}


def source(*paths: str, **more: str) -> tuple[Source, ...]:
    return (Source(paths=paths, **more),)


def test_a_source_that_is_not_there_is_named_and_keeps_no_other_from_being_read(rt: Runtime, logs: Path) -> None:
    put(logs / "a.jsonl", chat("a1"))
    paths = (f"{logs}/gone", f"{logs}/*.none", str(logs))
    both = replace(rt, settings=rt.settings.model_copy(update={"sources": source(*paths)}))
    report = ingest_sources(both)
    assert report.new == 1
    assert [skip.source for skip in report.skips] == [f"{logs}/gone", f"{logs}/*.none"]


def test_another_format_than_the_one_of_the_source_is_left_out_by_name(rt: Runtime, logs: Path) -> None:
    put(logs / "a.jsonl", chat("a1"))
    strict = replace(rt, settings=rt.settings.model_copy(update={"sources": source(str(logs), format="codex")}))
    report = ingest_sources(strict)
    assert report.new == 0
    assert "not codex" in report.skips[0].reason


def test_sessions_of_a_source_lie_below_its_scope(rt: Runtime, logs: Path) -> None:
    put(logs / "a.jsonl", chat("a1"))
    team = replace(rt, settings=rt.settings.model_copy(update={"sources": source(str(logs), scope="team-a")}))
    ingest_sources(team)
    (page,) = rt.store.find(rt.principal, scope="local/team-a", kind="session")
    assert page.scope == "local/team-a/desk"


def test_an_interruption_leaves_nothing_out(rt: Runtime, logs: Path) -> None:
    for number in range(6):
        put(logs / f"f{number}" / "a.jsonl", chat(f"s{number}"))

    def interrupt(step: Progress) -> None:
        if step.done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), listening(interrupt):
        ingest_sources(rt)
    ingest_sources(rt)
    assert keys(rt) == {f"s{number}" for number in range(6)}


def test_what_is_written_while_it_is_read_is_read_the_next_time(rt: Runtime, logs: Path) -> None:
    file = put(logs / "a.jsonl", chat("a1"))

    def append(step: Progress) -> None:
        if step.done:
            with file.open("a", encoding="utf-8") as appended:
                appended.write(chat("a2") + "\n")

    with listening(append):
        ingest_sources(rt)
    ingest_sources(rt)
    assert keys(rt) == {"a1", "a2"}


def test_sessions_spread_over_folders_are_read_whole_when_a_part_changes(rt: Runtime, logs: Path) -> None:
    storage = logs / "storage"
    put(storage / "session" / "global" / "ses_1.json", json.dumps({"id": "ses_1", "directory": "/desk", "time": {}}))
    put(
        storage / "message" / "ses_1" / "msg_1.json",
        json.dumps({"id": "msg_1", "sessionID": "ses_1", "role": "user", "time": {"created": 1}}),
    )
    part = json.dumps({"id": "prt_1", "sessionID": "ses_1", "messageID": "msg_1", "type": "text", "text": "hello"})
    put(storage / "part" / "msg_1" / "prt_1.json", part)
    assert ingest_sources(rt).new == 1
    put(
        storage / "message" / "ses_1" / "msg_2.json",
        json.dumps({"id": "msg_2", "sessionID": "ses_1", "role": "user", "time": {"created": 2}}),
    )
    put(storage / "part" / "msg_2" / "prt_2.json", part.replace("prt_1", "prt_2").replace("msg_1", "msg_2"))
    assert ingest_sources(rt).grown == 1
    (session,) = window(rt, "local").sessions
    assert len(session.steps) == 2
