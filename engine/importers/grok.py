"""Reads `grok`: the chat histories of Grok's CLI, `chat_history.jsonl`.

The session's id and folder are in the `summary.json` beside it. Where that was not named too, the key is the name of
the folder where that is an id, otherwise it is made from the content; and the project is "".
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from pydantic import JsonValue

from instar.engine.importers.chat import content_text
from instar.engine.importers.companions import SUMMARY_MARK
from instar.engine.importers.jsontext import mapping, moment, sequence, text_field
from instar.engine.importers.protocol import Context
from instar.engine.importers.reading import Heading, Record, folder_name, id_in, read_log
from instar.engine.importers.records import Imported, Skipped
from instar.engine.importers.streams import Member
from instar.engine.importers.transcript import Transcript
from instar.engine.importers.values import Value
from instar.engine.session import Origin, Speaker

_MARKS = {
    "user": ("prompt_index", "synthetic_reason"),
    "assistant": ("model_id", "model_fingerprint"),
    "backend_tool_call": ("kind",),
}


class Grok:
    """The reader of `grok`."""

    name = "grok"

    def recognises(self, value: JsonValue) -> bool:
        """A message with one of the fields that only this log has, or a summary of one."""
        record = mapping(value)
        if SUMMARY_MARK in record:
            return isinstance(record.get("info"), dict)
        kind = record.get("type")
        return isinstance(kind, str) and any(name in record for name in _MARKS.get(kind, ()))

    def read(self, values: Iterator[Value], member: Member, context: Context) -> Iterator[Imported | Skipped]:
        """One session per file."""

        def handle(record: Record, transcript: Transcript, heading: Heading) -> bool:
            _read_summary(context.companions.summaries.get(member.folder, {}), heading)
            heading.key = heading.key or id_in(member.folder_name)
            return _handle(record, transcript)

        first = next(values, None)
        if first is not None and SUMMARY_MARK not in mapping(first.json):
            yield from read_log(chain([first], values), member, context, name=self.name, handle=handle)


def _read_summary(summary: Record, heading: Heading) -> None:
    info = mapping(summary.get("info"))
    heading.key = text_field(info, "id")
    heading.project = folder_name(text_field(info, "cwd"))
    heading.started_at = moment(summary.get("created_at"))
    if summary.get("session_kind") == "subagent":
        heading.origin = Origin.SUBAGENT


def _handle(record: Record, transcript: Transcript) -> bool:
    kind = text_field(record, "type")
    text = content_text(record.get("content"))
    if kind == "system":
        transcript.say(Speaker.SYSTEM, text)
    elif kind == "user":
        transcript.say(Speaker.SYSTEM if "synthetic_reason" in record else Speaker.USER, text)
    elif kind == "assistant":
        transcript.say(Speaker.ASSISTANT, text)
        turn = f"step-{len(transcript.steps)}"
        for call in map(mapping, sequence(record.get("tool_calls"))):
            name, call_id = text_field(call, "name"), text_field(call, "id")
            transcript.call(name, call.get("arguments"), turn=turn, recorded_id=call_id)
    elif kind == "tool_result":
        transcript.answer(text, recorded_id=text_field(record, "tool_call_id"))
    elif kind == "backend_tool_call":
        call = mapping(record.get("kind"))
        name, call_id = text_field(call, "tool_type") or "backend_tool", text_field(call, "id")
        transcript.call(name, call.get("action"), turn=f"step-{len(transcript.steps)}", recorded_id=call_id)
    else:
        return kind == "reasoning"
    return True
