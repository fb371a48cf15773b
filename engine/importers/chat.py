"""OpenAI chat messages, the form that most recorders write, turned into steps."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from instar.engine.importers.jsontext import mapping, moment, sequence, text_field
from instar.engine.importers.transcript import Transcript
from instar.engine.session import Outcome, OutcomeStatus, Speaker, ToolSchema

_SPEAKERS = {
    "system": Speaker.SYSTEM,
    "developer": Speaker.SYSTEM,
    "user": Speaker.USER,
    "human": Speaker.USER,
    "assistant": Speaker.ASSISTANT,
}


def is_message(value: JsonValue) -> bool:
    """Whether a value looks like one chat message."""
    return isinstance(value, dict) and value.get("role") in (*_SPEAKERS, "tool", "function") and "content" in value


def read_messages(messages: Sequence[JsonValue], transcript: Transcript, *, first: int = 0) -> None:
    """Add every message to the transcript; `first` is the number of the first of them in its session.

    Calls on a message of the user are made by something else than the agent (the customer's device in telecom
    benchmarks): they are left out as calls, and their answers are kept as what the user said. A message of an
    unknown role is left out, and counted in the transcript.

    Raises:
        MalformedRecord: a call has no name, or holds values beyond the limits.
    """
    foreign: set[str] = set()
    for number, value in enumerate(messages, start=first):
        message = mapping(value)
        role = message.get("role")
        at = moment(message.get("timestamp", message.get("created_at")))
        content = content_text(message.get("content"))
        if role in ("tool", "function"):
            recorded_id = text_field(message, "tool_call_id")
            if recorded_id and recorded_id in foreign:
                foreign.discard(recorded_id)
                transcript.say(Speaker.USER, content, at)
                continue
            name = text_field(message, "name", "tool_name")
            told = message.get("content")
            result = told if isinstance(told, dict) else content
            transcript.answer(result, recorded_id=recorded_id, tool=name, flag=_flag(message), at=at)
            continue
        speaker = _SPEAKERS.get(role) if isinstance(role, str) else None
        if speaker is None:
            transcript.left_out["messages without a known role"] += 1
            continue
        transcript.say(speaker, content, at)
        if speaker is Speaker.ASSISTANT:
            _read_calls(message, transcript, turn=str(number))
        else:
            foreign.update(text_field(mapping(call), "id") for call in sequence(message.get("tool_calls")))


def _read_calls(message: dict[str, JsonValue], transcript: Transcript, *, turn: str) -> None:
    at = moment(message.get("timestamp", message.get("created_at")))
    for value in sequence(message.get("tool_calls")):
        call = mapping(value)
        function = mapping(call.get("function")) or call
        transcript.call(
            text_field(function, "name"),
            function.get("arguments", function.get("args")),
            turn=turn,
            recorded_id=text_field(call, "id"),
            at=at,
        )
    legacy = mapping(message.get("function_call"))
    if legacy:
        transcript.call(text_field(legacy, "name"), legacy.get("arguments"), turn=turn, at=at)


def _flag(message: dict[str, JsonValue]) -> bool | None:
    for name in ("is_error", "isError"):
        value = message.get(name)
        if isinstance(value, bool):
            return value
    return None


def content_text(content: JsonValue) -> str:
    """The text of a message: a string, or parts of which those without text are named in brackets."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    parts: list[str] = []
    for part in sequence(content):
        if isinstance(part, str):
            parts.append(part)
            continue
        record = mapping(part)
        text = record.get("text")
        if isinstance(text, dict):
            text = text.get("value")
        parts.append(text if isinstance(text, str) else f"[{text_field(record, 'type') or 'part'}]")
    return "\n".join(parts)


def read_schemas(values: JsonValue) -> tuple[ToolSchema, ...]:
    """Tools as they were offered: OpenAI function schemas, bare or wrapped, and MCP tool lists."""
    schemas: list[ToolSchema] = []
    for value in sequence(values):
        record = mapping(value)
        function = mapping(record.get("function")) or record
        name = text_field(function, "name")
        if not name:
            continue
        parameters = function.get("parameters", function.get("inputSchema", function.get("input_schema")))
        description = text_field(function, "description")
        schemas.append(ToolSchema(name, description, mapping(parameters), _effect(record, function)))
    return tuple(schemas)


def _effect(record: dict[str, JsonValue], function: dict[str, JsonValue]) -> str:
    stated = text_field(function, "effect") or text_field(record, "effect")
    if stated in ("read", "write"):
        return stated
    read_only = mapping(function.get("annotations", record.get("annotations"))).get("readOnlyHint")
    return {True: "read", False: "write"}.get(read_only, "") if isinstance(read_only, bool) else ""


def read_outcome(record: dict[str, JsonValue], basis: str = "") -> Outcome:
    """An outcome from `reward`, `success` or `resolved`; a reward between 0 and 1 leaves the status open."""
    reward = record.get("reward")
    number = float(reward) if isinstance(reward, int | float) and not isinstance(reward, bool) else None
    for name in ("success", "resolved"):
        stated = record.get(name)
        if isinstance(stated, bool):
            status = OutcomeStatus.SUCCESS if stated else OutcomeStatus.FAILURE
            return Outcome(status, basis or name, number)
    if number is None:
        return Outcome()
    if number >= 1:
        return Outcome(OutcomeStatus.SUCCESS, basis or "reward", number)
    return Outcome(OutcomeStatus.FAILURE if number <= 0 else OutcomeStatus.UNKNOWN, basis or "reward", number)
