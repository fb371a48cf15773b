"""Recorded Claude Code sessions as workloads: what the agent read, and when it came back to it."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.data import recorded
from benchmarks.store_workloads import Turn, Workload
from instar.memstore.ladder import PIN_WEIGHT, RECOMPUTE_WEIGHT, SCOPE_WEIGHT, TYPE_WEIGHT, Item
from instar.memstore.pages import RESIDENCY, PageType, State, canonical
from instar.memstore.represent import Representer, Subject

BUDGETS = (2_000, 8_000, 32_000)
_COMPACTION = 25
_FEW = 12
"""A shorter session says little."""


def sessions(limit: int) -> list[Workload]:
    """Up to this many sessions, the longest first.

    Raises:
        DataMissing: the recordings are not there.
    """
    found: list[Workload] = []
    with tarfile.open(recorded("claude-code") / "sessions.tar.gz") as files:
        for member in sorted(files.getmembers(), key=lambda member: member.name):
            file = files.extractfile(member) if member.name.endswith(".jsonl") else None
            if file is not None:
                workload = _workload(member.name, [json.loads(line) for line in file if line.strip()])
                if len(workload.turns) >= _FEW:
                    found.append(workload)
    return sorted(found, key=lambda workload: (-len(workload.turns), workload.family))[:limit]


def _workload(name: str, records: list[Mapping[str, Any]]) -> Workload:
    representer, number = Representer(), 0
    calls: dict[str, tuple[str, Mapping[str, Any]]] = {}
    last: dict[str, str] = {}
    """The page of the last result about each file or command."""
    topic: dict[str, str] = {}
    turns: list[Turn] = []
    waiting: list[Item] = []
    for block in _blocks(records):
        kind = block["type"]
        if kind == "tool_use":
            calls[block["id"]] = (str(block.get("name", "")), block.get("input") or {})
            about = _about(block.get("input") or {})
            needs = (last[about],) if about in last else ()
            compaction = len(turns) % _COMPACTION == _COMPACTION - 1
            turns.append(Turn(tuple(waiting), needs=needs, topics=(about,) if about else (), compaction=compaction))
            waiting = []
            continue
        number += 1
        page_id = f"{kind[:4]}-{number:04d}"
        if kind == "tool_result":
            tool, given = calls.get(block["tool_use_id"], ("", {}))
            content = {"tool": tool, "arguments": dict(given), "status": "ok"}
            page_type, text, about = PageType.EVIDENCE, _text(block.get("content")), _about(given)
            if about:
                last[about] = page_id
        else:
            page_type = PageType.BOOTSTRAP if number == 1 else PageType.CONVERSATION
            content, text, about = {"speaker": kind}, str(block["text"]), ""
        if page_type is PageType.BOOTSTRAP:
            content = {"task": text[:600]}
        topic[page_id] = about
        waiting.append(_item(representer, page_id, page_type, content, text[:200_000]))
    return Workload(name, 0, tuple(turns), topic)


def _blocks(records: list[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for record in records:
        message = record.get("message")
        if not isinstance(message, dict) or record.get("isMeta"):
            continue
        content = message.get("content")
        if isinstance(content, str):
            yield {"type": "text", "text": content}
        elif isinstance(content, list):
            for block in content:
                if isinstance(block, dict) and block.get("type") in ("text", "tool_use", "tool_result"):
                    yield block


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


def _about(given: Mapping[str, Any]) -> str:
    """What a call is about: the file or the command."""
    for name in ("file_path", "path", "notebook_path", "command", "pattern", "url"):
        if isinstance(given.get(name), str):
            return str(given[name])
    return ""


def _item(representer: Representer, page_id: str, kind: PageType, content: Mapping[str, Any], text: str) -> Item:
    content_json = canonical(dict(content))
    subject = Subject(page_id, 1, "step", kind, "local", State.SUCCESS, content, text, "")
    pointer, structured, compressed, full = (n + 1 for n in representer.represent(subject, content_json).tokens)
    recompute = {PageType.EVIDENCE: 1.0, PageType.CONVERSATION: 0.4}.get(kind, 0.2)
    pin = RESIDENCY[kind].pin
    worth = PIN_WEIGHT[pin] + TYPE_WEIGHT.get(kind, 0.0) + SCOPE_WEIGHT + RECOMPUTE_WEIGHT * recompute + 0.5
    costs = (0, pointer, structured, compressed, full)
    return Item(page_id, pin, kind is PageType.BOOTSTRAP, RESIDENCY[kind].path, costs, worth, recompute)
