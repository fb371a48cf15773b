"""The answers that are asked for. Everything in them is a claim, checked before anything is made of it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from instar.engine.documents import MemoryKind


class Shape(BaseModel):
    """Common rules: immutable, and nothing unknown slips in."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Suspicion(Shape):
    """A step whose text tries to steer whoever reads it."""

    ref: int
    what: str = Field(max_length=400)


class Statement(Shape):
    """One thing that a session taught, with the steps that show it."""

    kind: MemoryKind
    statement: str = Field(min_length=1, max_length=400)
    refs: list[int] = Field(min_length=1, max_length=12)
    quote: str = Field(max_length=400)
    tool: str = Field(max_length=200)
    status: Literal["", "success", "error"]


class Distilled(Shape):
    """What one session taught."""

    memories: list[Statement] = Field(max_length=12)
    instructions_found: list[Suspicion] = Field(max_length=20)


class DistilledOne(Distilled):
    """What one of several sessions taught."""

    session: int


class DistilledTogether(Shape):
    """What each of several sessions taught."""

    sessions: list[DistilledOne] = Field(max_length=40)


class Group(Shape):
    """Sessions in which the same thing was asked for."""

    what: str = Field(max_length=200)
    sessions: list[int] = Field(max_length=200)


class Grouped(Shape):
    """Sessions by what was asked for."""

    groups: list[Group] = Field(max_length=20)


class Found(Shape):
    """The procedure that a group of sessions shares, if one does."""

    recurs: bool
    why: str = Field(max_length=400)
    steps: list[str] = Field(max_length=12)
    tools: list[str] = Field(max_length=12)
    sessions: list[int] = Field(max_length=200)


class Suggested(Shape):
    """What could become a skill."""

    propose: bool
    why: str = Field(max_length=400)
    skill: str = Field(max_length=80)
    title: str = Field(max_length=120)
    summary: str = Field(max_length=600)
    existing: str = Field(max_length=80)
    turns_saved_per_use: float = Field(ge=0, le=20)
    against: list[str] = Field(max_length=6)


class Feasible(Shape):
    """Whether a program without judgement of its own can do it."""

    feasible: bool
    why: str = Field(max_length=400)


class Input(Shape):
    """One parameter."""

    name: str = Field(max_length=40)
    type: Literal["string", "integer", "number", "boolean", "array", "object"]
    meaning: str = Field(max_length=240)
    required: bool


class ToolReason(Shape):
    """A tool, and why it is needed."""

    name: str = Field(max_length=200)
    why: str = Field(max_length=240)


class Specified(Shape):
    """A requirement."""

    title: str = Field(max_length=120)
    purpose: str = Field(max_length=600)
    when_to_use: list[str] = Field(min_length=1, max_length=5)
    when_not_to_use: list[str] = Field(min_length=1, max_length=5)
    inputs: list[Input] = Field(max_length=8)
    output_type: Literal["string", "integer", "number", "boolean", "array", "object"]
    output_meaning: str = Field(max_length=240)
    tools: list[ToolReason] = Field(max_length=12)
    wheels: list[str] = Field(default_factory=list, max_length=4)
    risks: list[str] = Field(max_length=6)
    open_questions: list[str] = Field(max_length=6)


class RecordedUse(Shape):
    """How one session would have used the skill, told by the steps that show it."""

    applies: bool
    arguments_json: str = Field(max_length=4_000)
    calls: list[int] = Field(max_length=60)
    returns_ref: int
    returns_path: list[str | int] = Field(max_length=12)
    returns_json: str = Field(max_length=8_000)


class Designed(Shape):
    """How the program will go about it."""

    steps: list[str] = Field(min_length=1, max_length=20)
    edge_cases: list[str] = Field(max_length=10)


class Coded(Shape):
    """The program."""

    code: str = Field(min_length=1, max_length=24_000)
