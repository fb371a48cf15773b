"""The documents that travel from engine to engine: memories, reflections, proposals, requirements, drafts.

Each is a frozen pydantic model, because each crosses an edge: it is stored as a page, shown to a person, or came
from a model. Every document cites the pages it rests on; the page store refuses a citation that does not resolve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from instar.engine.plan import Evidence, Plan, Support
from instar.engine.session import Session
from instar.sandbox.folds import Fold
from instar.skills.cases import Case
from instar.skills.manifest import Dependency


class Document(BaseModel):
    """Common rules: immutable, and nothing unknown slips in."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    made_by: str = ""
    """The model, and the prompt with its version, where a model wrote it."""


# Memories ---------------------------------------------------------------------------------------------------


class MemoryKind(StrEnum):
    """What a memory is about."""

    OUTCOME = "outcome"
    PROCEDURE = "procedure"
    FAILURE = "failure"
    RECOVERY = "recovery"
    FEEDBACK = "feedback"


class Memory(Document):
    """A distilled statement about one session."""

    kind: MemoryKind
    session: str
    statement: str
    evidence: Evidence
    tool: str = ""
    status: Literal["", "success", "error"] = ""
    tags: list[str] = Field(default_factory=list)


# Reflection -------------------------------------------------------------------------------------------------


class Pattern(Document):
    """A recurring dataflow tree of tool calls."""

    title: str
    project: str
    plan: Plan
    support: Support
    evidence: Evidence
    turns_saved: float
    """Expected turns saved per firing, over the sessions in which the pattern was seen."""


class FailureCluster(Document):
    """The same failure, seen again and again, with what got past it."""

    tool: str
    signature: str
    """The error message with its variable parts blanked out."""
    example: str
    support: Support
    recovered: int = Field(ge=0)
    """How many of the failures were followed by a success of the same tool within six steps."""
    lesson: str
    """What to do, in one sentence; empty where no recovery was seen often enough to advise one."""
    trend: Literal["", "rising", "falling", "steady"] = ""
    """From the earlier to the later half of the window; empty where the sessions are too few or carry no dates."""
    evidence: Evidence


class CommandPattern(Document):
    """A shell command that recurs in one project: format, lint, test, build and the like."""

    project: str
    command: str
    category: str
    support: Support
    succeeded: int = Field(ge=0)
    evidence: Evidence


class Gap(Document):
    """Something that was asked for and not done: handed to a human, tried with a tool that is not there, given up."""

    what: str
    project: str
    words: list[str] = Field(default_factory=list)
    """What the requests have in common."""
    support: Support
    evidence: Evidence


class Contrast(Document):
    """A tool whose sessions ended otherwise than those without it. It goes with the outcome; it need not cause it."""

    tool: str
    project: str
    succeeded_with: int = Field(ge=0)
    sessions_with: int = Field(ge=0)
    succeeded_without: int = Field(ge=0)
    sessions_without: int = Field(ge=0)
    evidence: Evidence


class SkillUse(BaseModel):
    """How an existing skill fared in the window."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    skill: str
    uses: int = Field(ge=0)
    failed: int = Field(ge=0)
    missed: int = Field(ge=0)
    """Sessions that made its first call by hand, without the skill."""


class Abstention(BaseModel):
    """Something that was looked at and not proposed, with the reason and its numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    what: str
    reason: str


class ProposalAction(StrEnum):
    """What a proposal asks for."""

    NEW = "new"
    IMPROVE = "improve"
    MERGE = "merge"
    RETIRE = "retire"


class Proposal(Document):
    """A change to the set of skills, with the case for it and against it."""

    action: ProposalAction
    skill: str
    title: str
    summary: str
    support: Support
    evidence: Evidence
    expected_turns_saved: float
    """Turns saved over the sessions of the window, had the skill existed."""
    against: list[str]
    plan: Plan | None = None
    project: str = ""
    memories: list[str] = Field(default_factory=list)


class Reflection(Document):
    """A report over a window of sessions."""

    scope: str
    sessions: int
    tasks: int
    calls: int
    failures: int
    left_out: dict[str, int]
    """Sessions that were not mined, by reason."""
    patterns: list[Pattern]
    failure_clusters: list[FailureCluster]
    commands: list[CommandPattern]
    proposals: list[Proposal]
    abstentions: list[Abstention]
    evidence: list[str]
    gaps: list[Gap] = Field(default_factory=list)
    contrasts: list[Contrast] = Field(default_factory=list)
    skill_uses: list[SkillUse] = Field(default_factory=list)


# Requirement and draft --------------------------------------------------------------------------------------


class ToolNeed(BaseModel):
    """A tool that the requirement asks to be granted."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    why: str
    effect: Literal["read", "write"]
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    reach: list[str] = Field(default_factory=list, exclude_if=lambda reach: not reach)
    """Of a built-in tool: the hosts or folders that the recording shows."""


class FoldPlan(BaseModel):
    """A hold-out before it is written as code: the plan mined without one task, and that task's cases."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str
    plan: Plan | None
    """None when the remaining tasks no longer support the plan."""
    cases: list[Case]


class AgentText(BaseModel):
    """What the agent reads, always in English; needed where the requirement itself is in another language."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    purpose: str
    when_to_use: list[str]
    when_not_to_use: list[str]
    tools: dict[str, str]
    """Why each tool is needed, by its name."""


class Prd(Document):
    """The requirement: everything a person needs to decide, and everything an engine needs to write."""

    proposal: str
    skill: str
    title: str
    purpose: str
    when_to_use: list[str]
    when_not_to_use: list[str]
    input_schema: dict[str, JsonValue]
    output_schema: dict[str, JsonValue]
    tools: list[ToolNeed]
    wheels: list[Dependency] = Field(default_factory=list, exclude_if=lambda wheels: not wheels)
    """Pinned wheels of the user's shelf that the program may bring along, with all that they need."""
    acceptance: list[Case]
    expected_benefit: str
    risks: list[str]
    open_questions: list[str]
    evidence: Evidence
    memories: list[str] = Field(default_factory=list)
    plan: Plan | None = None
    folds: list[FoldPlan] = Field(default_factory=list)
    """Hold-outs for the replay gate. They are stored with the requirement and never enter the package."""
    support: Support
    confidence: float = Field(ge=0, le=1)
    language: Literal["en", "zh"] = "en"
    for_agent: AgentText | None = None
    """None where the requirement is in English: then the agent reads the same sentences."""


class LineOrigin(BaseModel):
    """Where a line range of a package's file comes from; the base of `instar lineage SKILL:LINE`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    first_line: int = Field(ge=1)
    last_line: int = Field(ge=1)
    node: str
    evidence: Evidence


class Draft(Document):
    """A candidate package. `files` maps relative paths to text, the manifest included."""

    prd: str
    skill: str
    version: str
    files: dict[str, str]
    folds: list[Fold] = Field(default_factory=list)
    origins: list[LineOrigin] = Field(default_factory=list)
    evidence: Evidence


# What the engines read ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Window:
    """The sessions and memories between two points in time, in one scope."""

    scope: str
    sessions: Sequence[Session]
    memories: Sequence[Memory] = ()
    since: datetime | None = None
    until: datetime | None = None
    left_out: dict[str, int] = field(default_factory=dict)
    decisions: Sequence[str] = ()
    """What reviewers decided before, one line each: "reject user-with-orders 0.1.0: too broad"."""


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A skill that exists: Instar's own, or (read-only) one installed in the agent's host."""

    name: str
    version: str
    description: str
    tools: tuple[str, ...]
    lineage: str
    own: bool = True
    plan: Plan | None = None
    code: str = ""
    """The program as it is published; empty where there is none that may be shown."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The skills that exist."""

    entries: tuple[CatalogueEntry, ...] = ()
