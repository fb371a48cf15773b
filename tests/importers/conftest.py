"""Writes session files and reads them back."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from instar.engine.importers import Imported, ImportLimits, Skipped, read_sources
from instar.engine.session import Session


@dataclass(frozen=True)
class Reading:
    sessions: list[Session]
    skipped: list[Skipped]
    imported: list[Imported]

    @property
    def reasons(self) -> list[str]:
        return [one.reason for one in self.skipped]

    @property
    def only(self) -> Session:
        assert len(self.sessions) == 1, (self.sessions, self.skipped)
        return self.sessions[0]


def read(*paths: Path, limits: ImportLimits | None = None) -> Reading:
    items = list(read_sources(paths, limits=limits))
    imported = [item for item in items if isinstance(item, Imported)]
    skipped = [item for item in items if isinstance(item, Skipped)]
    return Reading([item.session for item in imported], skipped, imported)


def as_lines(values: Iterable[object]) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


Write = Callable[[str, object], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a file below the temporary folder: bytes and text as they are, everything else as JSON."""

    def write_file(name: str, content: object) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write_file


def user(text: str) -> dict[str, object]:
    return {"role": "user", "content": text}


def call(call_id: str, tool: str, arguments: object) -> dict[str, object]:
    return {"id": call_id, "type": "function", "function": {"name": tool, "arguments": arguments}}


def assistant(*calls: dict[str, object], text: str | None = None) -> dict[str, object]:
    message: dict[str, object] = {"role": "assistant", "content": text}
    return message | ({"tool_calls": list(calls)} if calls else {})


def answer(call_id: str, content: object) -> dict[str, object]:
    text = content if isinstance(content, str) else json.dumps(content)
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def chat(key: str = "s1", *messages: dict[str, object], **fields: object) -> dict[str, object]:
    body = list(messages) or [
        user("Where is my order?"),
        assistant(call("a", "get_order", '{"order_id": "#W1"}')),
        answer("a", {"order_id": "#W1", "status": "sent"}),
        assistant(text="It was sent."),
    ]
    return {"id": key, "messages": body, **fields}


def data_folder(name: str) -> Path:
    """A folder of recorded sessions, or a skip with its reason."""
    folder = Path(os.environ.get("INSTAR_DATA", "../shared/data")) / name
    if not folder.is_dir():
        pytest.skip(f"recorded sessions are not at {folder}; set INSTAR_DATA")
    return folder
