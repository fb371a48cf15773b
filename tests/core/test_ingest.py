from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from instar.core import ingest as ingesting
from instar.core.ingest import ingest, ingest_sessions
from instar.core.learn import window
from instar.core.progress import Progress, listening
from instar.core.runtime import Runtime, runtime
from instar.core.settings import Settings
from instar.engine.session import Message, Session, Speaker

Write = Callable[..., Path]


def chat(key: str, *, turns: int = 1, text: str = "hello") -> dict[str, object]:
    """A small session in the chat format with `turns` tool calls."""
    messages: list[dict[str, object]] = [{"role": "user", "content": text}]
    for number in range(turns):
        call = {"name": "get_order", "arguments": json.dumps({"order_id": f"#W{number}"})}
        messages += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"c{number}", "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": f"c{number}", "name": "get_order", "content": json.dumps({"n": number})},
        ]
    return {"id": key, "task": key, "project": "desk", "messages": messages}


def pages(rt: Runtime, kind: str) -> list[str]:
    return sorted(page.id for page in rt.store.find(rt.principal, scope="local", kind=kind))


def test_reading_the_same_log_twice_adds_nothing(empty: Runtime, write_sessions: Write) -> None:
    log = write_sessions(chat("a", turns=2), chat("b"))
    first = ingest(empty, [log])
    before = empty.store.count(empty.principal, scope="local")
    second = ingest(empty, [log])
    assert (first.new, second.new, second.unchanged) == (2, 0, 2)
    assert empty.store.count(empty.principal, scope="local") == before


def test_a_session_that_grew_continues_where_it_was(empty: Runtime, write_sessions: Write) -> None:
    ingest(empty, [write_sessions(chat("a", turns=1))])
    kept = pages(empty, "step")
    report = ingest(empty, [write_sessions(chat("a", turns=3))])
    assert report.grown == 1
    assert set(kept) < set(pages(empty, "step"))
    (session,) = window(empty, "local").sessions
    assert len(session.steps) == 7


def test_a_session_whose_past_changed_keeps_the_earlier_version(empty: Runtime, write_sessions: Write) -> None:
    ingest(empty, [write_sessions(chat("a", text="first words"))])
    report = ingest(empty, [write_sessions(chat("a", text="other words"))])
    assert report.revised == 1
    first_step = pages(empty, "step")[0]
    history = [page.content["text"] for page in empty.store.history(empty.principal, first_step)]
    assert sorted(str(text) for text in history) == ["first words", "other words"]


def test_a_log_that_was_cut_off_takes_nothing_away(empty: Runtime, write_sessions: Write) -> None:
    ingest(empty, [write_sessions(chat("a", turns=3))])
    report = ingest(empty, [write_sessions(chat("a", turns=1))])
    assert report.shorter == 1
    (session,) = window(empty, "local").sessions
    assert len(session.steps) == 7


def test_a_malformed_line_is_skipped_with_file_line_and_reason(empty: Runtime, write_sessions: Write) -> None:
    report = ingest(empty, [write_sessions(chat("a"), '{"messages": [', chat("b"))])
    assert (report.new, report.skipped) == (2, 1)
    (skip,) = report.skips
    assert skip.source.endswith("log.jsonl")
    assert "2" in skip.position
    assert skip.reason


def test_a_secret_is_redacted_before_it_is_stored(empty: Runtime, write_sessions: Write) -> None:
    secret = "ghp_" + "a1B2" * 9
    report = ingest(empty, [write_sessions(chat("a", text=f"my token is {secret} thanks"))])
    assert report.redacted == 1
    stored = (empty.settings.home / "store.db").read_bytes()
    wal = empty.settings.home / "store.db-wal"
    assert secret.encode() not in stored + (wal.read_bytes() if wal.exists() else b"")


def test_an_interruption_keeps_whole_sessions_and_a_rerun_completes(
    empty: Runtime, write_sessions: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingesting, "BATCH_STEPS", 10)
    log = write_sessions(*(chat(f"s{number}", turns=3) for number in range(12)))

    def interrupt(step: Progress) -> None:
        if step.done >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), listening(interrupt):
        ingest(empty, [log])
    kept = window(empty, "local").sessions
    assert 0 < len(kept) < 12
    assert all(len(session.steps) == 7 for session in kept)
    ingest(empty, [log])
    assert len(window(empty, "local").sessions) == 12


WORKER = """
import sys
from pathlib import Path
from instar.core.ingest import ingest, ingest_sessions
from instar.core.runtime import runtime
from instar.core.settings import Settings
from instar.core.progress import listening
with runtime(Settings(home=Path(sys.argv[1]))) as rt, listening(lambda step: print(step.done, flush=True)):
    ingest(rt, [Path(sys.argv[2])])
"""


def start(home: Path, log: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WORKER, str(home), str(log)], stdout=subprocess.PIPE)


def test_two_at_once_store_every_session_once(tmp_path: Path, write_sessions: Write) -> None:
    log = write_sessions(*(chat(f"s{number}", turns=4) for number in range(300)))
    home = tmp_path / "home"
    both = [start(home, log), start(home, log)]
    assert [process.communicate()[0] and process.returncode for process in both] == [0, 0]
    with runtime(Settings(home=home)) as rt:
        assert len(window(rt, "local").sessions) == 300
        assert rt.store.check() == []
        assert ingest(rt, [log]).unchanged == 300


def test_a_kill_leaves_the_store_intact_and_a_rerun_completes(tmp_path: Path, write_sessions: Write) -> None:
    log = write_sessions(*(chat(f"s{number}", turns=6) for number in range(600)))
    home = tmp_path / "home"
    process = start(home, log)
    assert process.stdout is not None
    process.stdout.readline()  # the first batch is committed; the kill meets a later one
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    with runtime(Settings(home=home)) as rt:
        assert rt.store.check() == []
        kept = window(rt, "local").sessions
        assert 0 < len(kept) < 600
        assert all(len(session.steps) == 13 for session in kept)
        ingest(rt, [log])
        assert len(window(rt, "local").sessions) == 600


def test_an_unknown_format_is_named_and_never_guessed_at(empty: Runtime, tmp_path: Path) -> None:
    odd = tmp_path / "odd.json"
    odd.write_text(json.dumps({"weather": "fine", "days": [1, 2]}))
    report = ingest(empty, [odd])
    assert (report.sessions, report.skipped) == (0, 1)
    assert "openai-chat" in report.skips[0].reason


def test_pages_bear_the_time_of_what_happened_and_none_that_no_clock_has_shown(empty: Runtime) -> None:
    said = datetime(2025, 3, 1, 12, tzinfo=UTC)
    edge = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))
    times = [said, edge, datetime(9999, 1, 1, tzinfo=UTC), None]
    steps = [Message(number, Speaker.USER, f"words {number}", at) for number, at in enumerate(times)]
    before = datetime.now(UTC)
    ingest_sessions(empty, [Session("a", "openai-chat", "desk", "a", steps, started_at=said)])
    (session,) = empty.store.find(empty.principal, scope="local", kind="session")
    first, *impossible, untold = empty.store.find(empty.principal, scope="local", kind="step")
    assert session.created_at == first.created_at == untold.created_at == said
    assert all(page.created_at >= before for page in impossible)
    earlier = {page.id for page in empty.store.find(empty.principal, scope="local", until=before)}
    assert earlier == {session.id, first.id, untold.id}
