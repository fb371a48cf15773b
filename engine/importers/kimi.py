"""Reads `kimi`: the wire logs of Kimi Code CLI.

The session's id is kept in another file: the key is the moment at which the log was begun. What a hook or another
agent put in the user's place is said by the system.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from pydantic import JsonValue

from instar.engine.importers.chat import content_text
from instar.engine.importers.jsontext import mapping, moment, text_field
from instar.engine.importers.protocol import Context
from instar.engine.importers.reading import Heading, Record, folder_name, read_log
from instar.engine.importers.records import Imported, Skipped
from instar.engine.importers.streams import Member
from instar.engine.importers.transcript import Transcript
from instar.engine.importers.values import Value
from instar.engine.session import Origin, Speaker

_EVENTS = "context.append_loop_event"
_MESSAGE = "context.append_message"
_IGNORED = (
    "config.",
    "tools.",
    "turn.",
    "llm.",
    "usage.",
    "permission.",
    "context.",
    "goal.",
    "plan",
    "task",
    "hook",
    "swarm",
    "session.",
    "file",
    "full_compaction",
    "micro_compaction",
    "profile.",
    "plugin.",
    "runtime.",
    "token_counting.",
)


class Kimi:
    """The reader of `kimi`."""

    name = "kimi"

    def recognises(self, value: JsonValue) -> bool:
        """The opening record, or a change of the context."""
        record = mapping(value)
        if record.get("type") == "metadata":
            return "protocol_version" in record
        return record.get("type") in (_EVENTS, _MESSAGE)

    def read(self, values: Iterator[Value], member: Member, context: Context) -> Iterator[Imported | Skipped]:
        """One session per file."""
        return read_log(values, member, context, name=self.name, handle=_handle)


def _handle(record: Record, transcript: Transcript, heading: Heading) -> bool:
    kind = text_field(record, "type")
    at = moment(record.get("time"))
    if kind == "metadata":
        heading.started_at = moment(record.get("created_at"))
        begun = text_field(record, "created_at")
        heading.key = heading.key or (f"begun-{begun}" if begun else "")
    elif kind == "config.update":
        heading.project = heading.project or folder_name(text_field(record, "cwd"))
    elif kind == _MESSAGE:
        message = mapping(record.get("message"))
        origin = mapping(message.get("origin"))
        theirs = message.get("role") == "user" and origin.get("kind", "user") == "user"
        transcript.say(Speaker.USER if theirs else Speaker.SYSTEM, content_text(message.get("content")), at)
        if origin.get("name") == "subagent":
            heading.origin = Origin.SUBAGENT
    elif kind == _EVENTS:
        return _read_event(mapping(record.get("event")), transcript, at)
    else:
        return kind.startswith(_IGNORED)
    return True


def _read_event(event: Record, transcript: Transcript, at: datetime | None) -> bool:
    kind = text_field(event, "type")
    recorded_id = text_field(event, "toolCallId")
    if kind == "content.part":
        part = mapping(event.get("part"))
        if part.get("type") == "text":
            transcript.say(Speaker.ASSISTANT, text_field(part, "text"), at)
    elif kind == "tool.call":
        turn = text_field(event, "stepUuid") or recorded_id
        transcript.call(text_field(event, "name"), event.get("args"), turn=turn, recorded_id=recorded_id, at=at)
    elif kind == "tool.result":
        result = mapping(event.get("result"))
        failed = result.get("isError") is True or result.get("is_error") is True
        output = result.get("output", result.get("error"))
        value = content_text(output) if isinstance(output, list) else output
        transcript.answer(value, recorded_id=recorded_id, flag=failed, at=at)
    else:
        return kind.startswith("step.")
    return True
