"""Files of real agents, scrubbed by others: told apart, read, and none lost in silence."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from instar.engine.importers import detect
from instar.engine.session import ResultStatus

from .conftest import data_folder, read

FIXTURES = [
    ("antigravity/cli_small.jsonl", "antigravity", 1, 2),
    ("codex/small.jsonl", "codex", 1, 8),
    ("codex/large.jsonl", "codex", 1, 1),
    ("codex/schema_drift.jsonl", "codex", 1, 1),
    ("copilot/small.jsonl", "copilot", 1, 2),
    ("copilot/large.jsonl", "copilot", 1, 2),
    ("cursor/large.jsonl", "cursor", 1, 2),
    ("droid/session_store_large.jsonl", "droid", 1, 1),
    ("droid/stream_json_large.jsonl", "droid", 1, 1),
    ("gemini/large.json", "gemini", 1, 2),
    ("gemini/jsonl_v040.jsonl", "gemini", 1, 1),
    ("gemini/schema_drift.json", "gemini", 1, 0),
    ("grok/chat_history.jsonl", "grok", 1, 3),
    ("hermes/large.json", "openai-chat", 1, 1),
    ("kimi/assistant_tools.jsonl", "kimi", 1, 19),
    ("openclaw/large.jsonl", "pi", 1, 2),
    ("pi/small.jsonl", "pi", 1, 0),
    ("qwen/019f0000-0000-7000-8000-000000000004.jsonl", "qwen", 1, 1),
]


@pytest.fixture(scope="module")
def fixtures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fixtures")
    with tarfile.open(data_folder("agent-sessions-fixtures") / "fixtures.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.mark.parametrize(("name", "kind", "sessions", "calls"), FIXTURES)
def test_scrubbed_files_of_agents_are_told_apart_and_read(
    fixtures: Path, name: str, kind: str, sessions: int, calls: int
) -> None:
    path = fixtures / "stage0/agents" / name
    assert detect(path) == kind
    reading = read(path)
    assert len(reading.sessions) == sessions
    assert sum(len(list(session.exchanges())) for session in reading.sessions) == calls
    assert {session.format for session in reading.sessions} == {kind}


def test_no_scrubbed_file_is_lost_in_silence(fixtures: Path) -> None:
    reading = read(fixtures)
    told_of = {one.source for one in [*reading.imported, *reading.skipped]}
    files = {path for path in fixtures.rglob("*") if path.is_file()}
    kept = {path for path in files if "opencode" in path.parts and "session" not in path.parts}
    kept |= {path for path in files if path.name == "summary.json" and "grok" in path.parts}
    assert told_of | kept == files  # a session is told of by the file that opens it
    assert len({session.page_id for session in reading.sessions}) >= len(reading.sessions) - 1


def test_a_long_session_of_pi_is_read_whole() -> None:
    session = read(data_folder("pi-coding-agent") / "large-session.jsonl.gz").only
    assert len(list(session.exchanges())) == 391
    assert sum(told is not None and told.status is ResultStatus.ERROR for _, told in session.exchanges()) == 19
