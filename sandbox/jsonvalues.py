"""JSON as it crosses the wall: strict on the way in, converted on the way out."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import math
import uuid
from collections.abc import Iterable, Mapping, Set
from pathlib import PurePath
from typing import Final, NoReturn

from pydantic import BaseModel, JsonValue

MAX_DEPTH: Final = 64
"""Nesting that no honest message needs and every recursive reader survives."""


def parse(data: bytes) -> JsonValue:
    """Read one JSON value from a stranger.

    Raises:
        ValueError: not UTF-8, not JSON, a number that is none, a repeated key, half a surrogate pair, or nested
            deeper than MAX_DEPTH.
    """
    try:
        value: JsonValue = json.loads(data.decode(), parse_constant=_no_constant, object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    _check(value)
    return value


def canonical(value: JsonValue) -> str:
    """One spelling per value: sorted keys, no spaces. Equal values have equal spellings; 1 and 1.0 have two."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def to_json(value: object) -> JsonValue:
    """Turn what a Python tool returned into JSON: models, dataclasses, enums, dates, sets, paths, bytes as text.

    Raises:
        TypeError: a value, or a key, that has no obvious JSON form.
        ValueError: nested deeper than MAX_DEPTH, a number that is not finite, or bytes that are not UTF-8.
    """
    return _convert(value, 0)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _unique(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is repeated")
    return found


def _check(value: JsonValue) -> None:
    """Refuse what later readers would stumble over, without recursion."""
    waiting: list[tuple[JsonValue, int]] = [(value, 0)]
    while waiting:
        found, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise ValueError("nested too deeply")
        if isinstance(found, str):
            found.encode()
        elif isinstance(found, float) and not math.isfinite(found):
            raise ValueError("a number is out of range")
        elif isinstance(found, dict):
            waiting.extend((key, depth + 1) for key in found)
            waiting.extend((item, depth + 1) for item in found.values())
        elif isinstance(found, list):
            waiting.extend((item, depth + 1) for item in found)


def _convert(value: object, depth: int) -> JsonValue:
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, enum.Enum):
        return _convert(value.value, depth + 1)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _finite(float(value))
    return _convert_object(value, depth)


def _convert_object(value: object, depth: int) -> JsonValue:
    if isinstance(value, BaseModel):
        return _convert(value.model_dump(mode="json"), depth)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return _convert(fields, depth)
    if isinstance(value, Mapping):
        return {_key(key): _convert(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_convert(item, depth + 1) for item in value]
    if isinstance(value, Set):
        return _sorted(_convert(item, depth + 1) for item in value)
    return _convert_scalar(value)


def _convert_scalar(value: object) -> JsonValue:
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode()
    if isinstance(value, decimal.Decimal | uuid.UUID | PurePath):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _key(key: object) -> str:
    if isinstance(key, enum.Enum):
        key = key.value
    if isinstance(key, str):
        return str(key)
    if isinstance(key, bool) or not isinstance(key, int):
        raise TypeError(f"a {type(key).__name__} cannot be a JSON key")
    return str(key)


def _sorted(items: Iterable[JsonValue]) -> list[JsonValue]:
    return sorted(items, key=canonical)


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise ValueError(f"{number} is not JSON")
    return number
