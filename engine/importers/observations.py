"""Observations of an agent at work (generations of a model, and tools), turned into the steps of a session.

Telemetry records them apart, each with its input and output. An observation is an object with `type` (GENERATION or
TOOL), `id`, `name`, `startTime` and `endTime` as ISO 8601, `input`, `output`, `level` (ERROR where it failed) and
`statusMessage`.
"""

from __future__ import annotations

from pydantic import JsonValue

from instar.engine.importers.chat import read_messages
from instar.engine.importers.genai import chat_messages
from instar.engine.importers.jsontext import embedded, mapping, moment, sequence, text_field
from instar.engine.importers.reading import Record
from instar.engine.importers.transcript import Transcript
from instar.engine.session import Speaker

_TOOL_PREFIXES = ("running tool: ", "execute_tool ")


def read_observations(observations: list[Record], transcript: Transcript, *, depth: int) -> None:
    """Add what was observed, in order of time.

    Where tools were observed, they are the calls, with the messages of the generations around them; the tools between
    two generations are one turn. Where none were, the generation that saw the most messages holds the conversation.

    Raises:
        MalformedRecord: a call has no name, or holds values beyond the limits.
    """
    ordered = sorted(observations, key=lambda one: text_field(one, "startTime"))
    if any(one.get("type") == "TOOL" for one in ordered):
        _read_events(ordered, transcript, depth=depth)
    else:
        read_messages(_longest(ordered, depth=depth), transcript)


def _read_events(observations: list[Record], transcript: Transcript, *, depth: int) -> None:
    begun = False
    turn = ""
    for one in observations:
        at = moment(one.get("startTime"))
        if one.get("type") == "GENERATION":
            turn = text_field(one, "id")
            if not begun:
                seen = map(mapping, chat_messages(one.get("input"), depth=depth))
                asked: list[JsonValue] = [
                    message | {"tool_calls": []} for message in seen if message.get("role") != "tool"
                ]
                read_messages(asked, transcript)
                begun = bool(asked)
            transcript.say(Speaker.ASSISTANT, said_in(one.get("output"), depth=depth), at)
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
        text = said_in(one.get("output"), depth=depth)
        if not answer and text:
            answer = [{"role": "assistant", "content": text}]
        if seen and len(seen) + len(answer) > len(longest):
            longest = [*seen, *answer]
    return longest


def said_in(output: JsonValue, *, depth: int) -> str:
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
