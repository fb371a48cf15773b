"""Reads `droid`: what Factory's Droid keeps of its sessions, and what `droid exec` streams (which is headless)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from pydantic import JsonValue

from instar.engine.importers.blocks import Said, read_blocks
from instar.engine.importers.chat import content_text
from instar.engine.importers.jsontext import mapping, moment, text_field
from instar.engine.importers.protocol import Context
from instar.engine.importers.reading import Heading, Record, folder_name, read_log
from instar.engine.importers.records import Imported, Skipped
from instar.engine.importers.streams import Member
from instar.engine.importers.transcript import Transcript
from instar.engine.importers.values import Value
from instar.engine.session import Origin, Speaker

_SPEAKERS = {"user": Speaker.USER, "assistant": Speaker.ASSISTANT, "system": Speaker.SYSTEM}
_IGNORED = frozenset({"todo_state", "compaction_state", "session_end", "error", "reasoning"})
_STREAMED = {"message": "text", "tool_call": "toolName", "tool_result": "value", "completion": "finalText"}


class Droid:
    """The reader of `droid`."""

    name = "droid"

    def recognises(self, value: JsonValue) -> bool:
        """The opening record of a kept session, or a streamed event."""
        record = mapping(value)
        kind = record.get("type")
        if kind == "session_start":
            return isinstance(record.get("id"), str) and ("title" in record or "cwd" in record)
        streamed = isinstance(kind, str) and kind in _STREAMED and _STREAMED[kind] in record
        return streamed and bool(text_field(record, "session_id", "sessionId"))

    def read(self, values: Iterator[Value], member: Member, context: Context) -> Iterator[Imported | Skipped]:
        """One session per file."""
        return read_log(values, member, context, name=self.name, handle=_handle)


def _handle(record: Record, transcript: Transcript, heading: Heading) -> bool:
    kind = text_field(record, "type")
    at = moment(record.get("timestamp"))
    if kind == "session_start":
        heading.key = heading.key or text_field(record, "id")
        heading.project = heading.project or folder_name(text_field(record, "cwd"))
    elif kind == "message" and "message" in record:
        message = mapping(record.get("message"))
        speaker = _SPEAKERS.get(text_field(message, "role"), Speaker.SYSTEM)
        turn = text_field(record, "id") or f"step-{len(transcript.steps)}"
        read_blocks(message.get("content"), Said(speaker, turn, at), transcript)
    elif kind in _STREAMED or kind == "system":
        _read_streamed(kind, record, transcript, heading, at)
    else:
        return kind in _IGNORED
    return True


def _read_streamed(kind: str, record: Record, transcript: Transcript, heading: Heading, at: datetime | None) -> None:
    heading.key = heading.key or text_field(record, "session_id", "sessionId")
    heading.origin = Origin.HEADLESS
    call_id = text_field(record, "toolCallId", "id")
    if kind == "system":
        heading.project = heading.project or folder_name(text_field(record, "cwd"))
    elif kind == "tool_call":
        name = text_field(record, "toolName", "toolId")
        transcript.call(name, record.get("parameters"), turn=heading.next_call(), recorded_id=call_id, at=at)
        return
    elif kind == "tool_result":
        value = record.get("value", record.get("error"))
        code = mapping(value).get("exitCode")
        stated = record.get("isError")
        flag = stated if isinstance(stated, bool) else (code != 0 if isinstance(code, int) else None)
        transcript.answer(value, recorded_id=call_id, flag=flag, at=at)
    elif kind == "completion":
        transcript.say(Speaker.ASSISTANT, text_field(record, "finalText"), at)
    else:
        speaker = _SPEAKERS.get(text_field(record, "role"), Speaker.SYSTEM)
        transcript.say(speaker, content_text(record.get("text")), at)
    heading.calling = False
