"""Reads `antigravity`: the step logs of Antigravity's command line.

Results say what kind of step they are, not which call they answer: they are given to the open calls in order.
Argument values are JSON inside of text, and are unpacked. Nothing names the session: the key is the file's name where
that is an id, otherwise it is made from the content; the project is "".
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import JsonValue

from instar.engine.importers.chat import content_text
from instar.engine.importers.jsontext import embedded, mapping, moment, sequence, text_field
from instar.engine.importers.protocol import Context
from instar.engine.importers.reading import Heading, Record, id_in, read_log
from instar.engine.importers.records import Imported, Skipped
from instar.engine.importers.streams import Member
from instar.engine.importers.transcript import Transcript
from instar.engine.importers.values import Value
from instar.engine.session import Speaker

_IGNORED = frozenset({"CONVERSATION_HISTORY", "CHECKPOINT"})
_OPENING, _CLOSING = "<USER_REQUEST>", "</USER_REQUEST>"


class Antigravity:
    """The reader of `antigravity`."""

    name = "antigravity"

    def recognises(self, value: JsonValue) -> bool:
        """A numbered step with its source and type."""
        record = mapping(value)
        return "step_index" in record and "source" in record and isinstance(record.get("type"), str)

    def read(self, values: Iterator[Value], member: Member, context: Context) -> Iterator[Imported | Skipped]:
        """One session per file."""

        def handle(record: Record, transcript: Transcript, heading: Heading) -> bool:
            heading.key = id_in(member.stem) or id_in(member.folder_name)
            return _handle(record, transcript, depth=context.limits.depth)

        return read_log(values, member, context, name=self.name, handle=handle)


def _handle(record: Record, transcript: Transcript, *, depth: int) -> bool:
    kind, source = text_field(record, "type"), text_field(record, "source")
    text = content_text(record.get("content"))
    at = moment(record.get("created_at"))
    if kind == "USER_INPUT":
        request, _, settings = text.removeprefix(_OPENING).partition(_CLOSING)
        transcript.say(Speaker.USER, request.strip(), at)
        transcript.say(Speaker.SYSTEM, settings.strip(), at)
    elif kind == "PLANNER_RESPONSE":
        transcript.say(Speaker.ASSISTANT, text, at)
        turn = f"step-{len(transcript.steps)}"
        for call in map(mapping, sequence(record.get("tool_calls"))):
            arguments: JsonValue = {
                name: embedded(value, depth=depth) if isinstance(value, str) else value
                for name, value in mapping(call.get("args")).items()
            }
            transcript.call(text_field(call, "name"), arguments, turn=turn, at=at)
    elif source == "MODEL":
        status = text_field(record, "status")
        transcript.answer(text, flag=True if status == "ERROR" else None, refused=status == "CANCELED", at=at)
    elif source == "SYSTEM" and kind not in _IGNORED:
        transcript.say(Speaker.SYSTEM, text, at)
    else:
        return kind in _IGNORED
    return True
