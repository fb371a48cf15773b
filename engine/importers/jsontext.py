"""JSON from strangers: parsed within bounds, and cleaned of what no store can hold."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from math import isfinite
from typing import cast

from pydantic import JsonValue

from instar.engine.importers.errors import MalformedRecord

_UNSTORABLE_ESCAPE = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_LATEST_EPOCH_SECONDS = 32_503_680_000.0  # the year 3000


def parse(text: str) -> JsonValue:
    """Parse one JSON value.

    NaN and the infinities, which some writers emit, stay the text that was written, as does a number too large for a
    float. A lone surrogate becomes U+FFFD and NUL becomes U+2400, because neither can be stored everywhere.

    Raises:
        MalformedRecord: the text is not JSON, or is nested beyond what the parser can follow.
    """
    try:
        value = cast(JsonValue, _LENIENT.decode(text))
    except RecursionError:
        raise MalformedRecord("nested too deeply") from None
    except ValueError as error:
        raise MalformedRecord(f"not valid JSON ({_short(error)})") from None
    if _UNSTORABLE_ESCAPE.search(text):
        return _storable(value)
    return value


def parse_at(text: str, start: int) -> tuple[JsonValue, int]:
    """As `parse`, for a value that starts at an index of a longer text; also the index behind it.

    Raises:
        ValueError: there is no whole JSON value at that place.
        RecursionError: it is nested beyond what the parser can follow.
    """
    value, end = _LENIENT.raw_decode(text, start)
    if _UNSTORABLE_ESCAPE.search(text, start, end):
        return _storable(cast(JsonValue, value)), end
    return cast(JsonValue, value), end


def embedded(text: str, *, depth: int) -> JsonValue:
    """The value of a JSON object, array or quoted string that was recorded as text; otherwise the text itself.

    Bare numbers, `true` and `null` stay text: an id made of digits must remain the text that it was. A value nested
    deeper than `depth` stays text too.
    """
    start = text.lstrip()[:1]
    if start not in ("{", "[", '"'):
        return text
    try:
        value = cast(JsonValue, _STRICT.decode(text))
    except (ValueError, RecursionError):
        return text
    if _UNSTORABLE_ESCAPE.search(text):
        value = _storable(value)
    return text if is_deeper(value, depth) else value


def is_deeper(value: JsonValue, depth: int) -> bool:
    """Whether containers are nested more than `depth` levels."""
    level: list[JsonValue] = [value]
    for _ in range(depth + 1):
        inner: list[JsonValue] = []
        for item in level:
            if isinstance(item, dict):
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
        if not inner:
            return False
        level = inner
    return any(isinstance(item, dict | list) for item in level)


def storable(text: str) -> str:
    """The text without lone surrogates and NUL."""
    return _UNSTORABLE.sub(lambda found: "\u2400" if found.group() == "\x00" else "\ufffd", text)


def _storable(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, list):
        return [_storable(item) for item in value]
    if isinstance(value, dict):
        return {storable(key): _storable(item) for key, item in value.items()}
    return value


def _reject(name: str) -> JsonValue:
    raise ValueError(name)


def _finite(digits: str) -> float | str:
    """A number too large for a float stays the text that was written: JSON has no infinity."""
    number = float(digits)
    return number if isfinite(number) else digits


_LENIENT = json.JSONDecoder(parse_constant=str, parse_float=_finite)
_STRICT = json.JSONDecoder(parse_constant=_reject, parse_float=_finite)


def _short(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at column {error.colno}"
    return str(error)[:80]


# Fields of loosely typed records ----------------------------------------------------------------------------


def mapping(value: JsonValue) -> dict[str, JsonValue]:
    """The object itself, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def sequence(value: JsonValue) -> list[JsonValue]:
    """The array itself, or an empty one for anything else."""
    return value if isinstance(value, list) else []


def text_field(record: dict[str, JsonValue], *names: str) -> str:
    """The first of the named fields that holds text or a whole number, as text; "" where none does."""
    for name in names:
        value = record.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
    return ""


def moment(value: JsonValue) -> datetime | None:
    """A time from ISO 8601 text, or from seconds or milliseconds since 1970; None where it is neither."""
    if isinstance(value, str):
        try:
            parsed = datetime.fromisoformat(value)
        except ValueError:
            return None
        return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value / 1000 if abs(value) > _LATEST_EPOCH_SECONDS else value
        if 0 < seconds < _LATEST_EPOCH_SECONDS:
            return datetime.fromtimestamp(seconds, UTC)
    return None
