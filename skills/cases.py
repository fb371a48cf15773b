"""A recorded use of a skill: `tests/cases/*.json` in the package, and the hold-outs outside it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, JsonValue


class RecordedCall(BaseModel):
    """One tool call with its answer: a result, or the text of an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tool: str
    arguments: dict[str, JsonValue]
    result: JsonValue = None
    error: str | None = None


class Case(BaseModel):
    """Arguments, every answer that was recorded, and what must come back.

    `calls` holds what the recording can answer; a replay that asks for anything else is *uncovered*. Exactly one of
    `returns` and `raises` is meaningful: `raises` is the expected error text, or None where a value is expected.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    arguments: dict[str, JsonValue]
    calls: list[RecordedCall] = Field(default_factory=list)
    returns: JsonValue = None
    raises: str | None = None
