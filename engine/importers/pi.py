"""Reads `pi`: the JSON Lines of the Pi coding agent, and of OpenClaw, which is built on it.

A session is a tree of entries; abandoned branches were carried out too, so that all entries are read in the order of
the file. Every failed result is marked (`isError`).
"""

from __future__ import annotations

from collections.abc import Iterator

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
from instar.engine.session import Speaker

_SPEAKERS = {"user": Speaker.USER, "assistant": Speaker.ASSISTANT, "system": Speaker.SYSTEM}
_IGNORED = frozenset(
    {
        "model_change",
        "thinking_level_change",
        "compaction",
        "branch_summary",
        "custom",
        "label",
        "session_info",
        "leaf",
    }
)


class Pi:
    """The reader of `pi`."""

    name = "pi"

    def recognises(self, value: JsonValue) -> bool:
        """The opening record of a session."""
        record = mapping(value)
        return record.get("type") == "session" and isinstance(record.get("id"), str) and "cwd" in record

    def read(self, values: Iterator[Value], member: Member, context: Context) -> Iterator[Imported | Skipped]:
        """One session per file."""
        return read_log(values, member, context, name=self.name, handle=_handle)


def _handle(record: Record, transcript: Transcript, heading: Heading) -> bool:
    kind = text_field(record, "type")
    if kind == "session":
        heading.key = heading.key or text_field(record, "id")
        heading.project = heading.project or folder_name(text_field(record, "cwd"))
        heading.started_at = heading.started_at or moment(record.get("timestamp"))
    elif kind == "message":
        return _read_message(record, transcript)
    elif kind == "custom_message":
        transcript.say(Speaker.SYSTEM, content_text(record.get("content")), moment(record.get("timestamp")))
    else:
        return kind in _IGNORED
    return True


def _read_message(record: Record, transcript: Transcript) -> bool:
    message = mapping(record.get("message"))
    role = text_field(message, "role")
    at = moment(record.get("timestamp"))
    if role == "toolResult":
        transcript.answer(
            content_text(message.get("content")),
            recorded_id=text_field(message, "toolCallId"),
            tool=text_field(message, "toolName"),
            flag=message.get("isError") is True,
            at=at,
        )
    elif role == "bashExecution":  # typed by the user, with a leading "!"
        transcript.say(Speaker.USER, f"! {text_field(message, 'command')}", at)
    elif role in _SPEAKERS:
        turn = text_field(record, "id") or f"step-{len(transcript.steps)}"
        read_blocks(message.get("content"), Said(_SPEAKERS[role], turn, at, flagged=True), transcript)
    else:
        return False
    return True
