"""Reads ToolBench's answer trees, whose messages are cut off after a hundred characters, as sessions."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, JsonValue, TypeAdapter

from instar.engine.session import Message, ResultStatus, Session, Speaker, Step, ToolCall, ToolResult


class _Node(BaseModel):
    role: str
    message: str
    next: list[_Node]


class _Answer(BaseModel):
    answer_details: list[_Node]


class _Entry(BaseModel):
    query: str
    answer: _Answer


_FILE = TypeAdapter(dict[str, _Entry])
_NAME = re.compile(r"'name': '([^']*)'")
_ARGUMENTS = re.compile(r"'arguments': '(\{.*?\})'", re.DOTALL)
_RESPONSE = re.compile(r"'response': '(.*)", re.DOTALL)


def read_toolbench(archive: Path) -> Iterator[Session]:
    """Yield a session per query; a call's arguments are empty and its answer text where the tree was cut off."""
    with tarfile.open(archive) as found:
        for member in sorted(found.getmembers(), key=lambda m: m.name):
            handle = found.extractfile(member) if member.name.endswith(".json") else None
            if handle is not None:
                for key, entry in sorted(_FILE.validate_json(handle.read()).items()):
                    yield _session(f"{member.name}/{key}", key, entry)


def _session(key: str, task: str, entry: _Entry) -> Session:
    steps: list[Step] = [Message(0, Speaker.USER, entry.query)]
    for turn, message in enumerate(_tools(entry.answer.answer_details)):
        name = _NAME.search(message)
        if name is None or name[1] == "Finish":
            continue
        response = _RESPONSE.search(message)
        index = len(steps)
        steps.append(ToolCall(index, f"c{turn}", name[1], _arguments(message), turn))
        answer = response[1] if response else ""
        steps.append(ToolResult(index + 1, f"c{turn}", name[1], answer, ResultStatus.OK))
    return Session(key, "toolbench", "toolbench", task, tuple(steps))


def _tools(nodes: list[_Node]) -> Iterator[str]:
    for node in nodes:
        if node.role == "tool":
            yield node.message
        yield from _tools(node.next)


def _arguments(message: str) -> dict[str, JsonValue]:
    found = _ARGUMENTS.search(message)
    if found is None:
        return {}
    try:
        value = json.loads(found[1].encode().decode("unicode_escape"))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
