"""Reads `copilot`: the event logs of GitHub Copilot CLI, `session-state/<id>/events.jsonl`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from pydantic import JsonValue

from instar.engine.importers.chat import content_text
from instar.engine.importers.jsontext import mapping, moment, sequence, text_field
from instar.engine.importers.protocol import Context
from instar.engine.importers.reading import Heading, Record, folder_name, read_log
from instar.engine.importers.records import Imported, Skipped
from instar.engine.importers.streams import Member
from instar.engine.importers.transcript import Transcript
from instar.engine.importers.values import Value
from instar.engine.session import Speaker

_IGNORED = ("session.", "hook.", "assistant.", "tool.", "subagent.", "skill.", "system.", "permission.")
_RECOGNISED = ("session.start", "user.message", "assistant.message", "tool.execution_")
_IGNORED_WHOLE = frozenset({"abort"})


class Copilot:
    """The reader of `copilot`."""

    name = "copilot"

    def recognises(self, value: JsonValue) -> bool:
        """An event of a session."""
        record = mapping(value)
        kind = record.get("type")
        return isinstance(record.get("data"), dict) and isinstance(kind, str) and kind.startswith(_RECOGNISED)

    def read(self, values: Iterator[Value], member: Member, context: Context) -> Iterator[Imported | Skipped]:
        """One session per file."""
        return read_log(values, member, context, name=self.name, handle=_handle)


def _handle(record: Record, transcript: Transcript, heading: Heading) -> bool:
    kind = text_field(record, "type")
    data = mapping(record.get("data"))
    at = moment(record.get("timestamp"))
    call_id = text_field(data, "toolCallId")
    if kind == "session.start":
        heading.key = heading.key or text_field(data, "sessionId")
        heading.started_at = heading.started_at or moment(data.get("startTime"))
        heading.project = heading.project or folder_name(text_field(mapping(data.get("context")), "cwd"))
    elif kind == "user.message":
        transcript.say(Speaker.USER, content_text(data.get("content")), at)
    elif kind == "system.message":
        transcript.say(Speaker.SYSTEM, content_text(data.get("content")), at)
    elif kind == "assistant.message":
        transcript.say(Speaker.ASSISTANT, content_text(data.get("content")), at)
        for request in map(mapping, sequence(data.get("toolRequests"))):
            turn = text_field(data, "messageId") or text_field(record, "id")
            _call(request, text_field(request, "name"), transcript, turn=turn, at=at)
    elif kind == "tool.execution_start":
        turn = text_field(data, "turnId") or text_field(record, "id")
        _call(data, text_field(data, "toolName"), transcript, turn=turn, at=at)
    elif kind == "tool.execution_complete":
        result = mapping(data.get("result"))
        answer = content_text(result.get("content")) or text_field(mapping(data.get("error")), "message")
        transcript.answer(answer, recorded_id=call_id, flag=data.get("success") is False, at=at)
    else:
        return kind.startswith(_IGNORED) or kind in _IGNORED_WHOLE
    return True


def _call(data: Record, tool: str, transcript: Transcript, *, turn: str, at: datetime | None) -> None:
    """Add a call, unless its request was recorded before it was started."""
    recorded_id = text_field(data, "toolCallId")
    if not transcript.knows(recorded_id):
        transcript.call(tool, data.get("arguments"), turn=turn, recorded_id=recorded_id, at=at)
