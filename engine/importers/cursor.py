"""Reads `cursor`: the transcripts of Cursor's agent, which say neither who nor when.

Nothing in them names the session or the project: the key is the file's name where that is an id, otherwise it is made
from the content; the project is "".
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import JsonValue

from instar.engine.importers.blocks import Said, read_blocks
from instar.engine.importers.companions import SUBAGENTS
from instar.engine.importers.jsontext import mapping, text_field
from instar.engine.importers.protocol import Context
from instar.engine.importers.reading import Heading, Record, id_in, read_log
from instar.engine.importers.records import Imported, Skipped
from instar.engine.importers.streams import Member
from instar.engine.importers.transcript import Transcript
from instar.engine.importers.values import Value
from instar.engine.session import Origin, Speaker

_SPEAKERS = {"user": Speaker.USER, "assistant": Speaker.ASSISTANT, "system": Speaker.SYSTEM}


class Cursor:
    """The reader of `cursor`."""

    name = "cursor"

    def recognises(self, value: JsonValue) -> bool:
        """A role beside a message of blocks, and no type."""
        record = mapping(value)
        content = mapping(record.get("message")).get("content")
        return text_field(record, "role") in _SPEAKERS and isinstance(content, list) and "type" not in record

    def read(self, values: Iterator[Value], member: Member, context: Context) -> Iterator[Imported | Skipped]:
        """One session per file; one in a folder of sub-agents is a sub-agent's."""

        def handle(record: Record, transcript: Transcript, heading: Heading) -> bool:
            heading.key = id_in(member.stem)
            if member.lies_in(SUBAGENTS):
                heading.origin = Origin.SUBAGENT
            return _handle(record, transcript)

        return read_log(values, member, context, name=self.name, handle=handle)


def _handle(record: Record, transcript: Transcript) -> bool:
    role = text_field(record, "role")
    if role not in _SPEAKERS:
        return record.get("type") == "turn_ended"
    said = Said(_SPEAKERS[role], f"step-{len(transcript.steps)}")
    read_blocks(mapping(record.get("message")).get("content"), said, transcript)
    return True
