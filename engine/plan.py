"""The mined plan: tool calls with the dataflow between them, and the evidence that each rests on."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

Evidence = Annotated[list[str], Field(min_length=1)]
"""Page ids of session steps; never empty."""


class Support(BaseModel):
    """How often something was seen. Distinct tasks are what counts: repeated trials fake support."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sessions: int = Field(ge=0)
    tasks: int = Field(ge=0)
    calls: int = Field(ge=0)


class FromParameter(BaseModel):
    """The argument is a parameter of the skill, or with a path such as ["*"] each item of a list given as one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: Literal["parameter"] = "parameter"
    name: str
    path: list[str | int] = Field(default_factory=list)


class FromConstant(BaseModel):
    """The argument was the same in every session."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: Literal["constant"] = "constant"
    value: JsonValue


class FromResult(BaseModel):
    """The argument is a value in an earlier node's result.

    The path elements "*", "*keys" and "*values" loop over the items of a list and the keys or values of a mapping.
    With `collect` nothing loops: one call takes the list of all the different scalars that the path leads to, in
    each result of the node or over all its results together. Nothing to collect counts as absent.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: Literal["result"] = "result"
    node: str
    path: list[str | int]
    collect: Literal["", "each", "all"] = ""


class FromEither(BaseModel):
    """The argument is the first of several values that is there: alternative ways to the same thing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: Literal["either"] = "either"
    options: list[Annotated[FromParameter | FromResult, Field(discriminator="source")]] = Field(min_length=2)


Binding = Annotated[FromParameter | FromConstant | FromResult | FromEither, Field(discriminator="source")]


class PlanParameter(BaseModel):
    """One input of the skill: a Python identifier, the JSON Schema of its values, what it means."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    json_schema: dict[str, JsonValue]
    description: str
    examples: list[JsonValue] = Field(default_factory=list)


class PlanNode(BaseModel):
    """One tool call of the plan; a looping element in a binding's path makes it a loop.

    An `optional` node is skipped when one of its arguments is not given or not there. `switch` names a boolean
    parameter without which the node is left out; empty means that the node always runs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    tool: str
    arguments: dict[str, Binding]
    optional: bool = False
    switch: str = ""
    support: Support
    confidence: float = Field(ge=0, le=1)
    null_rate: float = Field(ge=0, le=1)
    """How often the same binding holds against another task's result: chance agreement."""
    evidence: Evidence


class FiringRule(BaseModel):
    """When a host may use the skill unasked, from what is visible before the call, as measured on recorded uses.

    Where `fire` is false the skill is only offered. `unless_named` holds regular expressions of identifiers: a
    request that already names one wants that one, not all. `unless_called` holds tools whose earlier use means the
    same.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    fire: bool
    unless_named: list[str] = Field(default_factory=list)
    unless_called: list[str] = Field(default_factory=list)
    needed_share: float = Field(ge=0, le=1)
    """Of the calls that the rule lets the skill make, how many the agent made too."""
    kept_share: float = Field(ge=0, le=1)
    """Of the turns that the skill can save, how many it still saves under the rule."""
    uses: int = Field(ge=0)
    tasks: int = Field(ge=0)


class Plan(BaseModel):
    """A dataflow tree in topological order; the first node is its root."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    parameters: list[PlanParameter]
    nodes: list[PlanNode] = Field(min_length=1)
    limit: str = ""
    """Name of the integer parameter that bounds every loop over a result; empty where there is none."""
    firing: FiringRule | None = None
