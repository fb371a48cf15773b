"""One JSON value out of a stream, or what kept it from being one."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from instar.engine.importers.records import ImportLimits


@dataclass(frozen=True, slots=True)
class Value:
    """One parsed value and its place, for example "line 3"."""

    place: str
    json: JsonValue
    size: int
    """Bytes or characters of its text."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A value that could not be read. `fatal` when nothing after it in this file can be."""

    place: str
    reason: str
    fatal: bool = False


def too_large(limits: ImportLimits) -> str:
    """The reason for passing over a value beyond the limit."""
    return f"larger than the limit of {limits.value_bytes} bytes for one value"
