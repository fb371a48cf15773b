"""Sessions that OpenClaw keeps in SQLite."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from instar.core.cursors import look_at
from instar.engine.importers import ImportLimits, detect
from instar.engine.session import Message, ResultStatus, Speaker, ToolCall, ToolResult

from .conftest import read

SCHEMA = """
CREATE TABLE transcript_events (
  session_id TEXT NOT NULL, seq INTEGER NOT NULL, event_json TEXT NOT NULL, created_at INTEGER NOT NULL,
  PRIMARY KEY (session_id, seq)
);
CREATE TABLE session_windows (session_id TEXT);
"""


def events(text: str) -> list[dict[str, object]]:
    call = {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a.txt"}}
    answer = {"role": "toolResult", "toolCallId": "c1", "toolName": "read", "isError": True}
    return [
        {"type": "session", "id": "s", "cwd": "/home/me/shop", "timestamp": "2026-09-01T10:00:00Z"},
        {"type": "message", "message": {"role": "user", "content": text}},
        {"type": "message", "message": {"role": "assistant", "content": [call]}},
        {"type": "message", "message": {**answer, "content": [{"type": "text", "text": "no such file"}]}},
    ]


def database(path: Path, sessions: dict[str, list[dict[str, object]]]) -> Path:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(SCHEMA)
        for name, records in sessions.items():
            rows = [(name, seq, json.dumps(record, indent=1), 0) for seq, record in enumerate(records)]
            connection.executemany("INSERT INTO transcript_events VALUES (?, ?, ?, ?)", reversed(rows))
    return path


def test_each_session_of_a_store_is_read_in_its_order(tmp_path: Path) -> None:
    path = database(tmp_path / "openclaw-agent.sqlite", {"b": events("second"), "a": events("first")})
    reading = read(path)
    assert reading.skipped == []
    assert [session.steps[0].text for session in reading.sessions] == ["first", "second"]
    assert [session.project for session in reading.sessions] == ["shop", "shop"]
    assert [one.position.split()[0] for one in reading.imported] == ["a", "b"]
    said, call, answer = reading.sessions[0].steps
    assert isinstance(said, Message)
    assert isinstance(call, ToolCall)
    assert isinstance(answer, ToolResult)
    assert (said.speaker, call.tool, call.arguments) == (Speaker.USER, "read", {"path": "a.txt"})
    assert answer.status is ResultStatus.ERROR
    assert detect(path) == "pi"


def test_what_the_program_has_not_written_into_the_database_yet_is_read_and_noticed(tmp_path: Path) -> None:
    path = database(tmp_path / "openclaw-agent.sqlite", {"a": events("first")})
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        before = look_at(path, None)
        rows = [("b", seq, json.dumps(record), 0) for seq, record in enumerate(events("second"))]
        writer.executemany("INSERT INTO transcript_events VALUES (?, ?, ?, ?)", rows)
        writer.commit()
        after = look_at(path, before)
        reading = read(tmp_path)
        assert [session.steps[0].text for session in reading.sessions] == ["first", "second"]
        assert reading.skipped == [], "what SQLite keeps beside a database is part of it"
    assert before is not None
    assert after is not None
    assert before.sha256 != after.sha256


def test_a_database_of_something_else_is_skipped_by_name(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE notes (text)")
    assert read(path).reasons == ["an SQLite database without transcripts of a known format"]
    assert detect(path) is None


@pytest.mark.parametrize(
    "schema",
    [
        "CREATE VIEW transcript_events AS SELECT 'a' AS session_id, 1 AS seq, '{}' AS event_json",
        "CREATE TABLE transcript_events (session_id, seq, event_json AS (zeroblob(1000000000)))",
    ],
)
def test_a_schema_that_computes_what_is_read_is_not_read(tmp_path: Path, schema: str) -> None:
    path = tmp_path / "trap.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(schema)
    assert read(path).reasons == ["an SQLite database without transcripts of a known format"]


def test_a_row_that_is_too_large_or_no_json_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    path = database(tmp_path / "s.sqlite", {"a": events("first")})
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO transcript_events VALUES ('a', 9, '{broken', 0)")
    reading = read(path)
    assert reading.only.steps[0].text == "first"
    assert len(reading.skipped) == 1
    large = read(database(tmp_path / "l.sqlite", {"a": events("x" * 5_000)}), limits=ImportLimits(value_bytes=2_000))
    assert large.skipped


def test_a_damaged_database_is_skipped_with_its_reason(tmp_path: Path) -> None:
    path = database(tmp_path / "s.sqlite", {"a": events("first" * 2_000)})
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)
    reading = read(path)
    assert reading.sessions == []
    assert reading.reasons[0].startswith("an SQLite database that cannot be read")
