"""Gemini's message parts, as Gemini CLI and Qwen Code write them."""

from __future__ import annotations

from datetime import datetime

from pydantic import JsonValue

from instar.engine.importers.jsontext import mapping, sequence, text_field
from instar.engine.importers.transcript import Transcript
from instar.engine.session import Speaker

_ENDED = {"success": False, "ok": False, "error": True, "failed": True}


def read_parts(
    parts: JsonValue, transcript: Transcript, *, speaker: Speaker, turn: str, status: str = "", at: datetime | None
) -> None:
    """Add a message: its text, its calls and its results. Thoughts are left out.

    `status` is how the tool ended, as the log says beside the result; "" where it does not.

    Raises:
        MalformedRecord: a call has no name, or holds values beyond the limits.
    """
    for value in [parts] if isinstance(parts, str) else sequence(parts):
        part: dict[str, JsonValue] = {"text": value} if isinstance(value, str) else mapping(value)
        call, response = mapping(part.get("functionCall")), mapping(part.get("functionResponse"))
        if call:
            recorded_id = text_field(call, "id")
            transcript.call(text_field(call, "name"), call.get("args"), turn=turn, recorded_id=recorded_id, at=at)
        elif response:
            read_response(response, transcript, status=status, at=at)
        elif part.get("thought") is not True:
            transcript.say(speaker, text_field(part, "text") or ("" if "text" in part else "[part]"), at)


def read_response(
    response: dict[str, JsonValue], transcript: Transcript, *, status: str, at: datetime | None
) -> None:
    """Add the result of a call, from a `functionResponse`.

    Raises:
        MalformedRecord: the result is nested beyond the limit.
    """
    body = response.get("response")
    fields = mapping(body)
    only = next(iter(fields)) if len(fields) == 1 else ""
    failed = only == "error" or _ENDED.get(status)
    value = fields[only] if only in ("output", "result", "error") else body
    transcript.answer(
        value,
        recorded_id=text_field(response, "id"),
        tool=text_field(response, "name"),
        flag=True if failed else _ENDED.get(status),
        refused=status == "cancelled",
        at=at,
    )
