"""Reads `otel`: spans of OpenTelemetry as JSON, in OTLP's form or as the JavaScript SDK prints them.

Known are the attributes of OpenTelemetry's GenAI conventions (old and new), of OpenInference, and of Vercel's AI SDK.
Every trace is a session. The project is the service's, agent's or function's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from pydantic import JsonValue

from instar.engine.importers.errors import MalformedRecord
from instar.engine.importers.jsontext import mapping, sequence, text_field
from instar.engine.importers.observations import read_observations
from instar.engine.importers.protocol import Context
from instar.engine.importers.reading import Heading, Record, conclude, too_long
from instar.engine.importers.records import Imported, Skipped
from instar.engine.importers.streams import Member
from instar.engine.importers.transcript import Transcript
from instar.engine.importers.values import Value

_INPUTS = ("gen_ai.input.messages", "ai.prompt.messages")
_OUTPUTS = ("gen_ai.output.messages", "ai.response.text")
_FLAT_INPUTS = ("llm.input_messages", "gen_ai.prompt")
_FLAT_OUTPUTS = ("llm.output_messages", "gen_ai.completion")
_TOOL = (
    ("gen_ai.tool.name", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"),
    ("ai.toolCall.name", "ai.toolCall.args", "ai.toolCall.result"),
    ("tool.name", "input.value", "output.value"),
)
_PROJECTS = ("service.name", "gen_ai.agent.name", "ai.telemetry.functionId")
_INDEXED = re.compile(r"(\d{1,6})\.(.{1,200})")
_ERROR_CODES = (2, "2", "ERROR", "STATUS_CODE_ERROR")
_NANOSECONDS = 1_000_000_000
_LATEST = 32_503_680_000


class Otel:
    """The reader of `otel`."""

    name = "otel"

    def recognises(self, value: JsonValue) -> bool:
        """A batch of OTLP, or a span with its context."""
        record = mapping(value)
        if isinstance(record.get("resourceSpans"), list):
            return True
        return isinstance(record.get("attributes"), dict) and "traceId" in mapping(record.get("spanContext"))

    def read(self, values: Iterator[Value], member: Member, context: Context) -> Iterator[Imported | Skipped]:
        """One session per trace that is in the file."""
        traces: dict[str, list[Record]] = {}
        places: dict[str, str] = {}
        size = 0
        for value in values:
            size += value.size
            if size > context.limits.session_bytes:
                yield Skipped(member.file, member.position(value.place), too_long(context))
                break
            for span in _spans(mapping(value.json)):
                trace = text_field(span, "traceId")
                traces.setdefault(trace, []).append(span)
                places.setdefault(trace, value.place)
        for trace, spans in traces.items():
            position = member.position(places[trace])
            transcript, heading = Transcript(depth=context.limits.depth), Heading(key=trace)
            observations = [one for one in map(_observation, spans) if one]
            names = (text_field(mapping(span.get("all")), *_PROJECTS) for span in spans)
            heading.project = next(filter(None, names), "")
            try:
                read_observations(observations, transcript, depth=context.limits.depth)
            except MalformedRecord as error:
                yield Skipped(member.file, position, error.reason)
                continue
            yield from conclude(transcript, heading, member, context, name=self.name, position=position)


def _spans(record: Record) -> Iterator[Record]:
    """Every span of a value, with its attributes as one object."""
    for batch in map(mapping, sequence(record.get("resourceSpans"))):
        shared = _attributes(mapping(batch.get("resource")).get("attributes"))
        for scope in map(mapping, sequence(batch.get("scopeSpans"))):
            for span in map(mapping, sequence(scope.get("spans"))):
                yield span | {"all": {**shared, **_attributes(span.get("attributes"))}}
    if "spanContext" in record:
        where = mapping(record.get("spanContext"))
        shared = _attributes(mapping(record.get("resource")).get("attributes"))
        yield record | where | {"all": {**shared, **_attributes(record.get("attributes"))}}


def _attributes(attributes: JsonValue) -> Record:
    """Attributes as one object; OTLP has them as a list of keys and typed values."""
    if isinstance(attributes, dict):
        return attributes
    found: Record = {}
    for attribute in map(mapping, sequence(attributes)):
        typed = mapping(attribute.get("value"))
        value = next(iter(typed.values()), None)
        if "arrayValue" in typed:
            inner = sequence(mapping(typed["arrayValue"]).get("values"))
            value = [next(iter(mapping(one).values()), None) for one in inner]
        found[text_field(attribute, "key")] = value
    return found


def _observation(span: Record) -> Record:
    """A span as an observation; empty for one that is neither a generation nor a tool."""
    attributes = mapping(span.get("all"))
    status = mapping(span.get("status"))
    common: Record = {
        "id": text_field(span, "spanId"),
        "startTime": _time(span, "startTime"),
        "endTime": _time(span, "endTime"),
        "level": "ERROR" if status.get("code") in _ERROR_CODES else "",
        "statusMessage": text_field(status, "message"),
    }
    for name, arguments, result in _TOOL:
        if text_field(attributes, name):
            called: Record = {"type": "TOOL", "name": text_field(attributes, name)}
            return common | called | {"input": attributes.get(arguments), "output": attributes.get(result)}
    asked = _messages(attributes, _INPUTS, _FLAT_INPUTS)
    if asked is None:
        return {}
    answered = _messages(attributes, _OUTPUTS, _FLAT_OUTPUTS)
    return common | {"type": "GENERATION", "input": asked, "output": answered}


def _messages(attributes: Record, whole: tuple[str, ...], flat: tuple[str, ...]) -> JsonValue:
    found = next((attributes[name] for name in whole if name in attributes), None)
    if found is not None:
        return found
    return next(filter(None, (_unflattened(attributes, prefix) for prefix in flat)), None)


def _unflattened(attributes: Record, prefix: str) -> list[JsonValue]:
    """Messages out of attributes such as `llm.input_messages.0.message.role`."""
    messages: dict[int, Record] = {}
    for key, value in attributes.items():
        found = _INDEXED.fullmatch(key.removeprefix(prefix + ".")) if key.startswith(prefix + ".") else None
        if found is None:
            continue
        message = messages.setdefault(int(found.group(1)), {})
        name = found.group(2).removeprefix("message.")
        inner = _INDEXED.fullmatch(name.removeprefix("tool_calls.")) if name.startswith("tool_calls.") else None
        if inner is None:
            message[name] = value
            continue
        calls = mapping(message.setdefault("by_index", {}))
        call = mapping(calls.setdefault(inner.group(1), {}))
        call[inner.group(2).removeprefix("tool_call.").removeprefix("function.")] = value
    for message in messages.values():
        calls = mapping(message.pop("by_index", None))
        if calls:
            message["tool_calls"] = [calls[index] for index in sorted(calls, key=int)]
    return [messages[index] for index in sorted(messages)]


def _time(span: Record, name: str) -> str:
    """A time as ISO 8601; "" where it is in no known form."""
    nanoseconds = text_field(span, f"{name}UnixNano")
    pair = [part for part in sequence(span.get(name)) if isinstance(part, int) and not isinstance(part, bool)]
    seconds = int(nanoseconds) / _NANOSECONDS if nanoseconds.isdecimal() and len(nanoseconds) < 25 else 0.0
    if len(pair) == 2:
        seconds = min(abs(pair[0]), _LATEST) + min(abs(pair[1]), _NANOSECONDS) / _NANOSECONDS
    return datetime.fromtimestamp(seconds, UTC).isoformat() if 0 < seconds < _LATEST else text_field(span, name)
