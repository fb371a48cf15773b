"""Messages as telemetry holds them, in the shapes of many frameworks, brought into the one that `chat` reads.

Known are OpenAI's messages and responses, the parts of OpenTelemetry's GenAI conventions, Gemini's contents, and any
of these as JSON inside of text.
"""

from __future__ import annotations

from pydantic import JsonValue

from instar.engine.importers.chat import content_text
from instar.engine.importers.jsontext import embedded, mapping, sequence, text_field

_ROLES = {"model": "assistant", "ai": "assistant", "human": "user", "developer": "system"}
_WRAPPERS = ("messages", "contents", "message", "content", "input")


def chat_messages(value: JsonValue, *, depth: int) -> list[JsonValue]:
    """The chat messages in a recorded input or output, in order; empty where there are none."""
    if isinstance(value, str):
        parsed = embedded(value, depth=depth)
        return [] if isinstance(parsed, str) else chat_messages(parsed, depth=depth)
    if isinstance(value, list):
        return [message for item in value for message in _normal(mapping(item), depth=depth)]
    record = mapping(value)
    if "role" in record:
        return _normal(record, depth=depth)
    for choice in sequence(record.get("choices")) or sequence(record.get("candidates")):
        return chat_messages(choice, depth=depth)
    for name in _WRAPPERS:
        if isinstance(record.get(name), list | dict) and (found := chat_messages(record[name], depth=depth)):
            return found
    return []


def _normal(record: dict[str, JsonValue], *, depth: int) -> list[JsonValue]:
    role = text_field(record, "role").lower()
    role = _ROLES.get(role, role)
    if not role:
        return []
    parts = record.get("parts")
    if not isinstance(parts, list):
        if role == "tool" and mapping(record.get("content")).get("type") == "function":
            return []  # a tool as it was offered, among the messages
        made = record.get("tool_calls") or mapping(record.get("additional_kwargs")).get("tool_calls")
        return [record | {"role": role, "content": record.get("content"), "tool_calls": made}]
    texts: list[JsonValue] = []
    calls: list[JsonValue] = []
    answers: list[JsonValue] = []
    for part in map(mapping, parts):
        call = mapping(part.get("functionCall", part.get("function_call")))
        answer = mapping(part.get("functionResponse", part.get("function_response")))
        kind = text_field(part, "type")
        if kind == "tool_call" or call:
            source = call or part
            arguments = source.get("arguments", source.get("args"))
            function: JsonValue = {"name": source.get("name"), "arguments": arguments}
            calls.append({"id": text_field(source, "id"), "function": function})
        elif kind == "tool_call_response" or answer:
            source = answer or part
            result = source.get("response", source.get("result", source.get("content")))
            content = _unwrapped(embedded(result, depth=depth) if isinstance(result, str) else result)
            answers.append({"role": "tool", "tool_call_id": text_field(source, "id"), "content": content})
        elif kind not in ("reasoning", "thinking"):
            texts.append(part.get("content", part.get("text")))
    said = "\n".join(content_text(text) for text in texts if text is not None)
    if role == "tool" or (answers and not said and not calls):
        return answers
    return [{"role": role, "content": said, "tool_calls": calls}, *answers]


def _unwrapped(result: JsonValue) -> JsonValue:
    """A function's result without the envelope that some frameworks put around it."""
    record = mapping(result)
    return record["result"] if record.get("type") == "function_result" and "result" in record else result
