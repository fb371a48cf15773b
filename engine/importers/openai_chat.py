"""Reads `openai-chat`: sessions as OpenAI chat messages, with what our own recorders add.

`{"messages": […], "tools": […]?, "id"?, "task"?, "project"?, "outcome"? | "reward"? | "success"?, "started_at"?,
"origin"?}` as one document, as JSON Lines or as an array; or a bare array of messages. Without an `id` the key is made
from the content; without a `task` the task is the user's first words; without a `project` it is "".
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import JsonValue

from instar.engine.importers.chat import is_message, read_messages, read_outcome, read_schemas
from instar.engine.importers.errors import MalformedRecord
from instar.engine.importers.jsontext import mapping, moment, sequence, text_field
from instar.engine.importers.protocol import Context
from instar.engine.importers.records import Imported, Skipped
from instar.engine.importers.streams import Member
from instar.engine.importers.transcript import Transcript, remarks
from instar.engine.importers.values import Value
from instar.engine.session import Origin, Session


class OpenAIChat:
    """The reader of `openai-chat`."""

    name = "openai-chat"

    def recognises(self, value: JsonValue) -> bool:
        """A record with a list of chat messages, or such a list."""
        return _messages(value) is not None

    def read(self, values: Iterator[Value], member: Member, context: Context) -> Iterator[Imported | Skipped]:
        """One session per value."""
        for value in values:
            position = member.position(value.place)
            transcript = Transcript(depth=context.limits.depth)
            try:
                session = self._session(value.json, transcript, member, context)
            except MalformedRecord as error:
                yield Skipped(member.file, position, error.reason)
                continue
            yield from remarks(transcript, member.file, position)
            yield Imported(session, member.file, position)

    def finish(self) -> Iterator[Imported | Skipped]:
        """Nothing spans files."""
        yield from ()

    def _session(self, value: JsonValue, transcript: Transcript, member: Member, context: Context) -> Session:
        messages = _messages(value)
        if messages is None:
            raise MalformedRecord("not a record with chat messages")
        read_messages(messages, transcript)
        if not transcript.steps:
            raise MalformedRecord("a session without messages")
        record = mapping(value)
        key = text_field(record, "id", "session_id", "conversation_id") or transcript.digest()
        outcome = mapping(record.get("outcome"))
        return Session(
            key=key,
            format=self.name,
            project=text_field(record, "project"),
            task=text_field(record, "task", "task_id") or transcript.request() or key,
            steps=transcript.steps,
            outcome=read_outcome(outcome or record, text_field(outcome, "basis")),
            origin=_ORIGINS.get(text_field(record, "origin"), Origin.INTERACTIVE),
            tools=read_schemas(record.get("tools")) or context.companions.tools_for(member, transcript.tools),
            source=member.name,
            started_at=moment(record.get("started_at")) or transcript.started_at,
        )


_ORIGINS = {origin.value: origin for origin in Origin}


def _messages(value: JsonValue) -> list[JsonValue] | None:
    """The messages of a record, or the record where it is a list of messages itself; None where it is neither."""
    found = sequence(value) if isinstance(value, list) else sequence(mapping(value).get("messages"))
    return found if found and is_message(found[0]) else None
