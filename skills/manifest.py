"""The machine-readable half of a skill package: `scripts/manifest.json`."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

NAME_PATTERN = r"^[a-z0-9]+(-[a-z0-9]+)*$"
VERSION_PATTERN = r"^(0|[1-9][0-9]{0,8})(\.(0|[1-9][0-9]{0,8})){2}$"
NAME_REGEX = re.compile(NAME_PATTERN, re.ASCII)
VERSION_REGEX = re.compile(VERSION_PATTERN, re.ASCII)


class SkillKind(StrEnum):
    """What a package contains."""

    PROGRAM = "program"
    RECIPE = "recipe"
    GUARD = "guard"


class Dependency(BaseModel):
    """A pinned wheel that the skill needs, with the SHA-256 of every file that may satisfy it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    version: str
    sha256: list[str] = Field(min_length=1)
    modules: list[str] = Field(default_factory=list, exclude_if=lambda modules: not modules)
    """What it is imported as; empty where that is its own name."""


class GrantedTool(BaseModel):
    """A tool that the skill may call, and why it needs it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    why: str
    effect: Literal["read", "write"]
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    """JSON Schema of the arguments; empty means any object."""
    reach: list[str] = Field(default_factory=list, exclude_if=lambda reach: not reach)
    """Of a built-in tool: the hosts of `http.get`, or the folders whose own files `files.…` may touch; no more."""


class Firing(BaseModel):
    """When a host may use the skill unasked; where `fire` is false it is only offered. Shares are measured."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fire: bool
    unless_named: list[str] = Field(default_factory=list)
    """Regular expressions of identifiers: a request that already names one wants that one."""
    unless_called: list[str] = Field(default_factory=list)
    """Tools whose earlier use in the conversation means the same."""
    needed_share: float = Field(ge=0, le=1)
    kept_share: float = Field(ge=0, le=1)


class Manifest(BaseModel):
    """What a skill is, takes, returns and may touch. Its digest list is what an approval is bound to."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=NAME_PATTERN, max_length=64)
    version: str = Field(pattern=VERSION_PATTERN)
    kind: SkillKind = SkillKind.PROGRAM
    input_schema: dict[str, JsonValue]
    output_schema: dict[str, JsonValue]
    tools: list[GrantedTool] = Field(default_factory=list)
    side_effects: Literal["none", "writes"] = "none"
    dependencies: list[Dependency] = Field(default_factory=list)
    confidence: float = Field(ge=0, le=1)
    firing: Firing | None = None
    lineage: str
    """The PRD page this skill was built from; another lineage never takes the name over."""
    files: dict[str, str]
    """SHA-256 of every other file of the package, by its relative path."""
