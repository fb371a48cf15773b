"""Reads `openai-chat`: sessions as OpenAI chat messages, with what our own recorders add.

`{"messages": […], "tools"?, "id"?, "task"?, "project"?, "outcome"? | "reward"? | "success"?, "started_at"?,
"origin"?}` as one document, as JSON Lines or as an array; or a bare array of messages. Without an `id` the key is
made from the content; without a `task` the task is the user's first words; without a `project` it is "".
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import JsonValue

from instar.engine.importers.chat import is_message, read_messages, read_outcome, read_schemas
from instar.engine.importers.errors import MalformedRecord
from instar.engine.importers.jsontext import mapping, moment, sequence, text_field
from instar.engine.importers.protocol import Context
from instar.engine.importers.reading import Heading, read_each
from instar.engine.importers.records import Imported, Skipped
from instar.engine.importers.streams import Member
from instar.engine.importers.transcript import Transcript
from instar.engine.importers.values import Value
from instar.engine.session import Origin


class OpenAIChat:
    """The reader of `openai-chat`."""

    name = "openai-chat"

    def recognises(self, value: JsonValue) -> bool:
        """A record with a list of chat messages, or such a list."""
        return _messages(value) is not None

    def read(self, values: Iterator[Value], member: Member, context: Context) -> Iterator[Imported | Skipped]:
        """One session per value."""
        return read_each(values, member, context, name=self.name, build=_build)


def _build(value: JsonValue, transcript: Transcript, heading: Heading) -> None:
    messages = _messages(value)
    if messages is None:
        raise MalformedRecord("not a record with chat messages")
    read_messages(messages, transcript)
    record = mapping(value)
    outcome = mapping(record.get("outcome"))
    heading.key = text_field(record, "id", "session_id", "conversation_id")
    heading.project = text_field(record, "project")
    heading.task = text_field(record, "task", "task_id")
    heading.outcome = read_outcome(outcome or record, text_field(outcome, "basis"))
    heading.origin = _ORIGINS.get(text_field(record, "origin"), Origin.INTERACTIVE)
    heading.tools = read_schemas(record.get("tools"))
    heading.started_at = moment(record.get("started_at"))


_ORIGINS = {origin.value: origin for origin in Origin}


def _messages(value: JsonValue) -> list[JsonValue] | None:
    """The messages of a record, or the record where it is a list of messages itself; None where it is neither."""
    found = sequence(value) if isinstance(value, list) else sequence(mapping(value).get("messages"))
    return found if found and is_message(found[0]) else None
