"""One recorded run of an agent, in the form that every engine reads.

Importers (`instar.engine.importers`) turn the log formats of the world into a `Session`; nothing after them
knows where a session came from. All text in here is data from strangers and is never executed or rendered as
a template.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from pydantic import JsonValue


class Speaker(StrEnum):
    """Who said a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class ResultStatus(StrEnum):
    """How a tool call ended, as its result states it; words inside pasted text never decide."""

    OK = "ok"
    ERROR = "error"
    REFUSED = "refused"
    """A person declined the call: feedback about the agent, not a failure of the tool."""


class OutcomeStatus(StrEnum):
    """How the whole task ended, as recorded beside the session (reward, evaluation, explicit feedback)."""

    SUCCESS = "success"
    FAILURE = "failure"
    UNKNOWN = "unknown"


class Origin(StrEnum):
    """Who started the session. Only interactive sessions are mined by default."""

    INTERACTIVE = "interactive"
    HEADLESS = "headless"
    SUBAGENT = "subagent"


@dataclass(frozen=True, slots=True)
class Message:
    """Text said by someone."""

    index: int
    speaker: Speaker
    text: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The agent asks for a tool. `turn` counts assistant messages that hold calls, from 0."""

    index: int
    call_id: str
    tool: str
    arguments: dict[str, JsonValue]
    turn: int
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What the tool answered. `call_id` is unique within the session (importers make it so).

    `value` is the parsed JSON where the answer was JSON, otherwise the text itself. `error` holds the message
    of a failed call, and is None unless `status` is ERROR or REFUSED.
    """

    index: int
    call_id: str
    tool: str
    value: JsonValue
    status: ResultStatus = ResultStatus.OK
    error: str | None = None
    at: datetime | None = None


Step = Message | ToolCall | ToolResult


@dataclass(frozen=True, slots=True)
class Outcome:
    """The recorded end of a task; `basis` says what recorded it, for example "reward" or "evaluation"."""

    status: OutcomeStatus = OutcomeStatus.UNKNOWN
    basis: str = ""
    reward: float | None = None


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """A tool as it was offered to the agent. `parameters` is a JSON Schema of type object.

    `effect` is "read", "write" or "" where the source does not say (MCP's `readOnlyHint` does).
    """

    name: str
    description: str = ""
    parameters: dict[str, JsonValue] = field(default_factory=dict)
    effect: str = ""


@dataclass(frozen=True, slots=True)
class Session:
    """One run of an agent: an ordered list of steps and an outcome.

    `key` names the session within its format, stable across imports. `task` identifies what was asked:
    repeated trials of one task share it, and support is counted in distinct tasks. `project` is where the
    agent worked (a repository, a tool domain); patterns never cross projects.
    """

    key: str
    format: str
    project: str
    task: str
    steps: Sequence[Step]
    outcome: Outcome = Outcome()
    origin: Origin = Origin.INTERACTIVE
    tools: Sequence[ToolSchema] = ()
    source: str = ""
    """The file the session was read from, relative to what the user named; for people, not for look-up."""
    started_at: datetime | None = None

    @property
    def page_id(self) -> str:
        """The id of this session's page: the same whenever and wherever it is imported."""
        digest = hashlib.sha256(f"{self.format}\0{self.project}\0{self.key}".encode()).hexdigest()
        return f"session-{digest[:16]}"

    def evidence_id(self, index: int) -> str:
        """The id of the evidence page that holds step `index`."""
        return f"{self.page_id}.{index:05d}"

    def exchanges(self) -> Iterator[tuple[ToolCall, ToolResult | None]]:
        """Every tool call with its result (None where none was recorded), in order of the calls."""
        results = {step.call_id: step for step in self.steps if isinstance(step, ToolResult)}
        for step in self.steps:
            if isinstance(step, ToolCall):
                yield step, results.get(step.call_id)
