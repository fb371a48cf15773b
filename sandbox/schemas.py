"""JSON Schema that came from a draft, evaluated without letting the schema do harm.

A hostile schema could name a URL to fetch, a regular expression that never ends, or references that double at every
step. Here nothing is fetched, regular expressions are not evaluated, and the work is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import referencing.exceptions
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import extend
from pydantic import JsonValue
from referencing import Registry

from instar.sandbox.errors import UnusableSchema

__all__ = ["ArgumentSchema", "UnusableSchema"]

MAX_REFERENCES: Final = 10_000
MESSAGE_CHARACTERS: Final = 300
UNSUPPORTED: Final = ("patternProperties", "$dynamicRef", "unevaluatedProperties", "unevaluatedItems")
NAMED: Final = ("properties", "$defs", "definitions", "dependentSchemas")
"""Keywords that hold schemas under names of the author's choice."""
DATA: Final = ("enum", "const", "default", "examples")
"""Keywords that hold values, not schemas."""


class ArgumentSchema:
    """One schema, ready to judge values. `pattern` and `format` are not evaluated."""

    def __init__(self, schema: Mapping[str, JsonValue]) -> None:
        """Read the schema.

        Raises:
            UnusableSchema: it cannot be evaluated safely.
        """
        _refuse_unsupported(dict(schema))
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            raise UnusableSchema(f"not a JSON Schema: {error.message[:MESSAGE_CHARACTERS]}") from error
        except RecursionError:
            raise UnusableSchema("nested too deeply") from None
        self._schema = dict(schema)

    def problem(self, value: JsonValue) -> str:
        """What is wrong with the value, in one line; empty when nothing is."""
        # A registry without a retriever: a reference that leaves the schema is an error, never a request.
        validator = _bounded_validator()(self._schema, registry=Registry())
        try:
            error = next(iter(validator.iter_errors(value)), None)
        except (RecursionError, _TooMuchWork):
            return "the schema is too intricate to evaluate"
        except referencing.exceptions.Unresolvable as error:
            return f"the schema refers to something outside itself: {error.ref[:MESSAGE_CHARACTERS]}"
        if error is None:
            return ""
        where = "/".join(str(part) for part in error.absolute_path)
        return f"{where}: {error.message}"[:MESSAGE_CHARACTERS] if where else error.message[:MESSAGE_CHARACTERS]


class _TooMuchWork(Exception):
    """More references followed than any honest schema needs."""


def _bounded_validator() -> type[Draft202012Validator]:
    """A validator class whose references share one allowance, and whose regular expressions are ignored."""
    followed = 0
    follow = Draft202012Validator.VALIDATORS["$ref"]

    def reference(
        validator: Draft202012Validator, target: str, instance: JsonValue, schema: Mapping[str, JsonValue]
    ) -> Iterator[ValidationError]:
        nonlocal followed
        followed += 1
        if followed > MAX_REFERENCES:
            raise _TooMuchWork
        yield from follow(validator, target, instance, schema) or ()

    def ignore(
        validator: Draft202012Validator, value: str, instance: JsonValue, schema: Mapping[str, JsonValue]
    ) -> Iterator[ValidationError]:
        yield from ()

    keywords = {"$ref": reference, "pattern": ignore}
    bounded: type[Draft202012Validator] = extend(Draft202012Validator, keywords)  # type: ignore[no-untyped-call]
    return bounded


def _refuse_unsupported(schema: JsonValue) -> None:
    waiting: list[JsonValue] = [schema]
    while waiting:
        found = waiting.pop()
        if isinstance(found, list):
            waiting.extend(found)
        if not isinstance(found, dict):
            continue
        for keyword, value in found.items():
            if keyword in UNSUPPORTED:
                raise UnusableSchema(f"{keyword} is not supported")
            if keyword in NAMED and isinstance(value, dict):
                waiting.extend(value.values())
            elif keyword not in DATA:
                waiting.append(value)
