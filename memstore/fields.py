"""Fields of JSON values by path: "user.id", "items.0.sku"."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import JsonValue

_MISSING = object()


def has(value: object, path: str) -> bool:
    """Whether there is something at the path."""
    return _walk(value, path) is not _MISSING


def pick(value: object, paths: Iterable[str]) -> dict[str, JsonValue]:
    """What is at each path, as far as there is something."""
    found = {path: _walk(value, path) for path in paths}
    return {path: item for path, item in found.items() if item is not _MISSING}  # type: ignore[misc]


def lacking(value: object, paths: Iterable[str]) -> str:
    """The paths at which there is nothing, in words; empty when there are none."""
    missing = [path for path in paths if not has(value, path)]
    return f"lacks {', '.join(missing)}" if missing else ""


def _walk(value: object, path: str) -> object:
    for name in path.split("."):
        if isinstance(value, Mapping) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return _MISSING
    return value
