"""Reads `qwen`: the sessions of Qwen Code.

A conversation that was rewound keeps its abandoned branch: it was carried out, and all is read in the order of the
file. Records with one `uuid` are one message.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import JsonValue

from instar.engine.importers.jsontext import mapping, moment, sequence, text_field
from instar.engine.importers.parts import read_parts
from instar.engine.importers.protocol import Context
from instar.engine.importers.reading import Heading, Record, folder_name, read_log
from instar.engine.importers.records import Imported, Skipped
from instar.engine.importers.streams import Member
from instar.engine.importers.transcript import Transcript
from instar.engine.importers.values import Value
from instar.engine.session import Speaker

_CONTEXT = "<qwen:user-prompt-submit-context>"


class Qwen:
    """The reader of `qwen`."""

    name = "qwen"

    def recognises(self, value: JsonValue) -> bool:
        """A message made of parts in a session."""
        record = mapping(value)
        if not isinstance(record.get("sessionId"), str) or "uuid" not in record:
            return False
        return "parts" in mapping(record.get("message")) or (
            record.get("type") == "system" and "systemPayload" in record
        )

    def read(self, values: Iterator[Value], member: Member, context: Context) -> Iterator[Imported | Skipped]:
        """One session per file."""
        return read_log(values, member, context, name=self.name, handle=_handle)


def _handle(record: Record, transcript: Transcript, heading: Heading) -> bool:
    kind = record.get("type")
    heading.key = heading.key or text_field(record, "sessionId")
    heading.project = heading.project or folder_name(text_field(record, "cwd"))
    if kind == "system":
        return True
    if kind not in ("user", "assistant", "tool_result"):
        return False
    speaker = Speaker.ASSISTANT if kind == "assistant" else Speaker.USER
    if record.get("subtype") == "notification":
        speaker = Speaker.SYSTEM
    status = text_field(mapping(record.get("toolCallResult")), "status")
    at = moment(record.get("timestamp"))
    for part in sequence(mapping(record.get("message")).get("parts")):
        hook = text_field(mapping(part), "text").startswith(_CONTEXT)
        said_by = Speaker.SYSTEM if hook else speaker
        read_parts([part], transcript, speaker=said_by, turn=text_field(record, "uuid"), status=status, at=at)
    return True
