"""Reads `langfuse`: traces exported from Langfuse, `{"trace": …, "observations": […]}`.

Where tools were observed, they are the calls, in order of time, with the messages of the generations around them; the
tools between two generations are one turn. Where none were, the generation that saw the most messages holds the whole
conversation. A trace has no end that says whether the task was done, unless a score named `success` or `reward` does.
The project is the trace's name, without an id where one is part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic import JsonValue

from instar.engine.importers.chat import read_messages, read_outcome
from instar.engine.importers.errors import MalformedRecord
from instar.engine.importers.genai import chat_messages
from instar.engine.importers.jsontext import embedded, mapping, moment, sequence, text_field
from instar.engine.importers.protocol import Context
from instar.engine.importers.reading import Heading, Record, read_each
from instar.engine.importers.records import Imported, Skipped
from instar.engine.importers.streams import Member
from instar.engine.importers.transcript import Transcript
from instar.engine.importers.values import Value
from instar.engine.session import Speaker

_ID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_TOOL_PREFIXES = ("running tool: ", "execute_tool ")


class Langfuse:
    """The reader of `langfuse`."""

    name = "langfuse"

    def recognises(self, value: JsonValue) -> bool:
        """A trace beside its observations."""
        record = mapping(value)
        return isinstance(record.get("trace"), dict) and isinstance(record.get("observations"), list)

    def read(self, values: Iterator[Value], member: Member, context: Context) -> Iterator[Imported | Skipped]:
        """One session per trace."""

        def build(value: JsonValue, transcript: Transcript, heading: Heading) -> None:
            _build(mapping(value), transcript, heading, depth=context.limits.depth)

        return read_each(values, member, context, name=self.name, build=build)


def _build(record: Record, transcript: Transcript, heading: Heading, *, depth: int) -> None:
    trace = mapping(record.get("trace"))
    if not trace:
        raise MalformedRecord("observations without their trace")
    observations = [mapping(one) for one in sequence(record.get("observations"))]
    observations.sort(key=lambda one: text_field(one, "startTime"))
    if any(one.get("type") == "TOOL" for one in observations):
        _read_events(observations, transcript, depth=depth)
    else:
        read_messages(_longest(observations, depth=depth), transcript)
    if not transcript.steps:
        _say_plainly(trace, transcript, depth=depth)
    heading.key = text_field(trace, "id")
    heading.project = _ID.sub("", text_field(trace, "name")).strip(" .-_")
    heading.started_at = moment(trace.get("timestamp"))
    scores: Record = {
        text_field(one, "name"): one.get("value") for one in map(mapping, sequence(trace.get("scores")))
    }
    heading.outcome = read_outcome(scores, "score")


def _read_events(observations: list[Record], transcript: Transcript, *, depth: int) -> None:
    begun = False
    turn = ""
    for one in observations:
        at = moment(one.get("startTime"))
        if one.get("type") == "GENERATION":
            turn = text_field(one, "id")
            if not begun:
                asked = [
                    one for one in chat_messages(one.get("input"), depth=depth) if mapping(one).get("role") != "tool"
                ]
                read_messages([mapping(one) | {"tool_calls": []} for one in asked], transcript)
                begun = bool(asked)
            transcript.say(Speaker.ASSISTANT, _text(one.get("output"), depth=depth), at)
        elif one.get("type") == "TOOL":
            name = text_field(one, "name")
            for prefix in _TOOL_PREFIXES:
                name = name.removeprefix(prefix)
            call_id = text_field(one, "id")
            transcript.call(name, one.get("input"), turn=turn, recorded_id=call_id, at=at)
            failed = True if text_field(one, "level") == "ERROR" else None
            output = one.get("output")
            if output is None and failed:
                output = text_field(one, "statusMessage")
            if output is not None:
                transcript.answer(output, recorded_id=call_id, flag=failed, at=moment(one.get("endTime")))


def _longest(observations: list[Record], *, depth: int) -> list[JsonValue]:
    """The messages of the generation that saw most of them, with its answer."""
    longest: list[JsonValue] = []
    for one in observations:
        if one.get("type") != "GENERATION":
            continue
        seen = chat_messages(one.get("input"), depth=depth)
        answer = chat_messages(one.get("output"), depth=depth)
        text = _text(one.get("output"), depth=depth)
        if not answer and text:
            answer = [{"role": "assistant", "content": text}]
        if seen and len(seen) + len(answer) > len(longest):
            longest = [*seen, *answer]
    return longest


def _say_plainly(trace: Record, transcript: Transcript, *, depth: int) -> None:
    for name, speaker in (("input", Speaker.USER), ("output", Speaker.ASSISTANT)):
        transcript.say(speaker, _text(trace.get(name), depth=depth), moment(trace.get("timestamp")))


def _text(output: JsonValue, *, depth: int) -> str:
    """What was said in an output, in whatever shape it was recorded."""
    value = embedded(output, depth=depth) if isinstance(output, str) else output
    if isinstance(value, str):
        return value
    messages = chat_messages(value, depth=depth)
    if messages:
        return "\n".join(filter(None, (_words(mapping(one).get("content")) for one in messages)))
    return _words(mapping(value).get("content")) or text_field(mapping(value), "text")


def _words(content: JsonValue) -> str:
    """The text of a message, without its calls."""
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, (text_field(mapping(part), "text") for part in sequence(content))))
