"""Reads `gemini`: the sessions of Gemini CLI, as one document or (since 0.40) as JSON Lines.

The project is the hash under which Gemini CLI keeps the folder; the log does not say its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from pydantic import JsonValue

from instar.engine.importers.errors import MalformedRecord
from instar.engine.importers.jsontext import mapping, moment, sequence, text_field
from instar.engine.importers.parts import read_parts, read_response
from instar.engine.importers.protocol import Context
from instar.engine.importers.reading import Heading, Record, read_each, read_log
from instar.engine.importers.records import Imported, Skipped
from instar.engine.importers.streams import Member
from instar.engine.importers.transcript import Transcript
from instar.engine.importers.values import Value
from instar.engine.session import Origin, Speaker

_SPEAKERS = {
    "user": Speaker.USER,
    "gemini": Speaker.ASSISTANT,
    "model": Speaker.ASSISTANT,
    "info": Speaker.SYSTEM,
    "error": Speaker.SYSTEM,
    "warning": Speaker.SYSTEM,
}


class Gemini:
    """The reader of `gemini`."""

    name = "gemini"

    def recognises(self, value: JsonValue) -> bool:
        """A whole session, its opening record, or a history of parts."""
        record = mapping(value)
        if _entries(record):
            return True
        return "projectHash" in record and isinstance(record.get("sessionId"), str) and "messages" not in record

    def read(self, values: Iterator[Value], member: Member, context: Context) -> Iterator[Imported | Skipped]:
        """One session per document, or one per file of lines."""
        first = next(values, None)
        if first is None:
            return
        whole = chain([first], values)
        if _entries(mapping(first.json)):
            yield from read_each(whole, member, context, name=self.name, build=_build)
        else:
            yield from read_log(whole, member, context, name=self.name, handle=_handle)


def _entries(record: Record) -> list[JsonValue]:
    """The messages of a whole session; empty where the record is none."""
    entries = sequence(record.get("messages")) or sequence(record.get("history"))
    first = mapping(entries[0]) if entries else {}
    return entries if text_field(first, "type") in _SPEAKERS or "parts" in first else []


def _build(value: JsonValue, transcript: Transcript, heading: Heading) -> None:
    record = mapping(value)
    entries = _entries(record)
    if not entries:
        raise MalformedRecord("not a session of Gemini CLI")
    _read_heading(record, heading)
    for entry in entries:
        if not _read_entry(mapping(entry), transcript):
            transcript.left_out["messages without a known type"] += 1


def _handle(record: Record, transcript: Transcript, heading: Heading) -> bool:
    if "projectHash" in record:
        _read_heading(record, heading)
        return True
    return "$set" in record or _read_entry(record, transcript)


def _read_heading(record: Record, heading: Heading) -> None:
    heading.key = text_field(record, "sessionId")
    heading.project = text_field(record, "projectHash")[:12]
    heading.started_at = moment(record.get("startTime", record.get("start_time")))
    if record.get("kind") == "subagent":
        heading.origin = Origin.SUBAGENT


def _read_entry(entry: Record, transcript: Transcript) -> bool:
    speaker = _SPEAKERS.get(text_field(entry, "type", "role"))
    if speaker is None:
        return False
    at = moment(entry.get("timestamp", entry.get("ts")))
    turn = text_field(entry, "id") or f"step-{len(transcript.steps)}"
    content = entry.get("content", entry.get("parts"))
    read_parts(content, transcript, speaker=speaker, turn=turn, at=at)
    calls = [mapping(call) for call in sequence(entry.get("toolCalls"))]
    for call in calls:
        recorded_id = text_field(call, "id")
        transcript.call(text_field(call, "name"), call.get("args"), turn=turn, recorded_id=recorded_id, at=at)
    for call in calls:
        for result in sequence(call.get("result")):
            response = mapping(mapping(result).get("functionResponse"))
            if response:
                read_response(response, transcript, status=text_field(call, "status"), at=at)
    return True
