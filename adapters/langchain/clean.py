"""Secrets are taken out of a graph's state before it is packed: in packed bytes nobody would find them."""

from __future__ import annotations

import dataclasses
from typing import Any

from pydantic import BaseModel, JsonValue

from instar.memstore.redaction import default_redactor, redact_fields

_DEPTH = 60


def clean(value: Any, depth: int = _DEPTH) -> Any:
    """The same value without secrets; what holds none is returned as it is."""
    if isinstance(value, str):
        redactor = default_redactor()
        return redactor.redact(value).text if redactor.suspicious(value) else value
    if depth <= 0 or value is None or isinstance(value, bool | int | float | bytes):
        return value
    if isinstance(value, dict):
        return _mapping(value, depth)
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(clean(item, depth - 1) for item in value)
    return _record(value, depth)


def _record(value: Any, depth: int) -> Any:
    if isinstance(value, BaseModel):
        changed = _changed({name: getattr(value, name) for name in type(value).model_fields}, depth)
        return value.model_copy(update=changed) if changed else value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
        changed = _changed(fields, depth)
        return dataclasses.replace(value, **changed) if changed else value
    return value


def _mapping(value: dict[Any, Any], depth: int) -> dict[Any, Any]:
    found = {clean(name, depth - 1): clean(item, depth - 1) for name, item in value.items()}
    strings: dict[str, JsonValue] = {
        name: item for name, item in found.items() if isinstance(name, str) and isinstance(item, str)
    }
    # A field can be secret by its name alone.
    secret_by_name = redact_fields(default_redactor(), strings, "")[0] if strings else {}
    return {name: secret_by_name.get(name, item) if isinstance(name, str) else item for name, item in found.items()}


def _changed(fields: dict[str, Any], depth: int) -> dict[str, Any]:
    cleaned = _mapping(fields, depth)
    return {name: item for name, item in cleaned.items() if name in fields and item != fields[name]}
