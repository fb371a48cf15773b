"""Whatever a framework hands over, as JSON. Foreign objects can do anything when asked what they are."""

from __future__ import annotations

import json
import reprlib

from pydantic import JsonValue
from pydantic_core import to_json as dump

_SHOWN = 500


class _Careful(reprlib.Repr):
    """`repr` that survives objects whose own one fails, and ends."""

    def __init__(self) -> None:
        super().__init__()
        self.maxother = self.maxstring = _SHOWN


_careful = _Careful()


def to_json(value: object) -> JsonValue:
    """The value as JSON: models and dataclasses by their fields, what JSON cannot say by a short description."""
    try:
        found: JsonValue = json.loads(
            dump(value, inf_nan_mode="strings", bytes_mode="base64", fallback=_careful.repr).decode(
                "utf-8", "replace"
            )
        )
    except Exception:  # noqa: BLE001  (a property of somebody else's object was run, and can raise anything)
        return _careful.repr(value)
    return found


def to_arguments(value: object) -> dict[str, JsonValue]:
    """Arguments of a call as an object: JSON text is parsed, anything that is no object becomes its `input`."""
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else {}
        except (ValueError, RecursionError):
            return {"input": str(value)}
    found = to_json(value)
    if found is None:
        return {}
    return found if isinstance(found, dict) else {"input": found}


def to_value(value: object) -> JsonValue:
    """A result: JSON text becomes what it says, so that fields of it can be found again."""
    found = to_json(value)
    if isinstance(found, str) and found[:1] in ("{", "["):
        try:
            parsed: JsonValue = to_json(json.loads(found))
        except (ValueError, RecursionError):
            return found
        return parsed
    return found
