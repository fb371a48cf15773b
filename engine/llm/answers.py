"""From the text of a completion to a value of the shape that was asked for, or one clear reason why not."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError

from instar.engine.llm.errors import Unusable
from instar.engine.llm.requests import Completer, Request, shape_in_words

Answer = TypeVar("Answer", bound=BaseModel)

MAX_TEXT = 200_000
"""Characters of an answer that are looked at."""
MAX_DEPTH = 40

_THINKING = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_OPEN_THINKING = re.compile(r"<(think|thinking|reasoning)>", re.IGNORECASE)
_FENCED = re.compile(r"^[ \t]*(`{3,}|~{3,})[a-zA-Z]*[ \t]*\n(.*?)^[ \t]*\1[ \t]*$", re.DOTALL | re.MULTILINE)
_OBJECT: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])
_VALUE: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)
_LOOSE = frozenset(
    {"title", "default", "minLength", "maxLength", "minItems", "maxItems", "pattern", "minimum", "maximum", "format"}
)
"""Keywords that servers with strict schemas refuse; the answer is checked against them here."""


class NotTheShape(ValueError):
    """The text is not what was asked for; `str()` is a reason that can be told to the model."""


def schema_of(shape: type[BaseModel]) -> dict[str, JsonValue]:
    """The JSON Schema of an answer as servers with strict schemas take it."""
    return _OBJECT.validate_python(_strict(shape.model_json_schema()))


def ask(completer: Completer, request: Request, shape: type[Answer]) -> Answer:
    """Ask, and once more with the reason if the answer has another shape.

    Raises:
        Unusable: the second answer has not the shape either, or the model refused.
        ModelError: there is no answer.
    """
    asked = request.redacted()
    completion = completer.complete(asked)
    try:
        return parse(completion.text, shape)
    except NotTheShape as problem:
        reason = str(problem)
    # Many servers take a schema and ignore it: now it is told in words as well.
    complaint = f"Your last answer could not be used: {reason}. Answer again. {shape_in_words(request.schema)}"
    again = replace(asked, user=f"{asked.user}\n\n{complaint}")
    completion = completer.complete(again)
    try:
        return parse(completion.text, shape)
    except NotTheShape as problem:
        raise Unusable(request.role, completion.model, f"asked twice: {problem}") from None


def parse(text: str, shape: type[Answer]) -> Answer:
    """The answer in a text that may hold thoughts, fences and remarks around one JSON object.

    Raises:
        NotTheShape: there is no such object, or it is not of this shape.
    """
    value = json_in(text)
    try:
        return shape.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise NotTheShape(f"{place[:80]}: {first['msg'][:160]}") from None


def json_in(text: str) -> dict[str, JsonValue]:
    """The one JSON object of a text.

    Raises:
        NotTheShape: there is none, there are several, or the text is too long.
    """
    if len(text) > MAX_TEXT:
        raise NotTheShape(f"it has {len(text):,} characters; {MAX_TEXT:,} are read")
    bare = _THINKING.sub("", text).strip()
    if _OPEN_THINKING.match(bare):
        raise NotTheShape("it holds thoughts and no answer")
    found = _loaded(bare)
    if found is None:
        fenced = [inner for _, inner in _FENCED.findall(bare)]
        values = [value for value in map(_loaded, fenced) if value is not None]
        if len(values) > 1:
            raise NotTheShape(f"it holds {len(values)} JSON objects; one is asked for")
        found = values[0] if values else _loaded(bare[bare.find("{") : bare.rfind("}") + 1])
    if found is None:
        raise NotTheShape("it is no JSON object")
    if _depth(found) > MAX_DEPTH:
        raise NotTheShape("it is nested too deeply")
    return found


def value_of(text: str) -> JsonValue:
    """A text that is one JSON value and nothing else.

    Raises:
        NotTheShape: it is none, or is nested too deeply.
    """
    try:
        value = _VALUE.validate_python(json.loads(text, parse_constant=_no_number))
    except (ValueError, RecursionError):
        raise NotTheShape("it is no JSON") from None
    if _depth(value) > MAX_DEPTH:
        raise NotTheShape("it is nested too deeply")
    return value


def _loaded(text: str) -> dict[str, JsonValue] | None:
    try:
        value = json.loads(text, parse_constant=_no_number)
        return _OBJECT.validate_python(value) if isinstance(value, dict) else None
    except (ValueError, RecursionError):
        return None


def _no_number(name: str) -> object:
    raise ValueError(name)


def _depth(value: JsonValue, depth: int = 0) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth if depth > MAX_DEPTH else max((_depth(item, depth + 1) for item in inner), default=depth)


def _strict(schema: JsonValue | Mapping[str, JsonValue], *, names: bool = False) -> JsonValue:
    """Every object closed and all of its fields required; `names` where keys are names of fields, not keywords."""
    if isinstance(schema, list):
        return [_strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema  # type: ignore[return-value]  # a scalar
    kept = {
        key: _strict(value, names=not names and key in {"properties", "$defs"})
        for key, value in schema.items()
        if names or key not in _LOOSE
    }
    properties = kept.get("properties")
    if not names and isinstance(properties, dict):
        kept["required"] = list(properties)
        kept["additionalProperties"] = False
    return kept
