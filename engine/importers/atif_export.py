"""Writes sessions in the Agent Trajectory Interchange Format, so that other tools can read them.

ATIF keeps the results of a turn with its calls: what was said between a call and its result moves behind it. What the
format has no place for (project, task, outcome, how a call failed) is kept in its `extra` fields, and read back.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import JsonValue

from instar.engine.session import Message, Outcome, ResultStatus, Session, Speaker, Step, ToolCall, ToolResult

VERSION = "ATIF-v1.8"
_SOURCES = {Speaker.SYSTEM: "system", Speaker.USER: "user", Speaker.ASSISTANT: "agent"}


@dataclass(slots=True)
class _Step:
    """A step of the trajectory that is being written."""

    source: str
    message: str
    at: datetime | None = None
    calls: list[JsonValue] = field(default_factory=list)
    results: list[JsonValue] = field(default_factory=list)

    def document(self, number: int) -> JsonValue:
        """The step as ATIF has it."""
        document: dict[str, JsonValue] = {"step_id": number, "source": self.source, "message": self.message}
        if self.at is not None:
            document["timestamp"] = self.at.isoformat()
        if self.calls:
            document["tool_calls"] = self.calls
        if self.results:
            document["observation"] = {"results": self.results}
        return document


def to_atif(session: Session) -> dict[str, JsonValue]:
    """A session as one ATIF trajectory document."""
    agent: dict[str, JsonValue] = {"name": session.format, "version": "unknown"}
    if session.tools:
        agent["tool_definitions"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
                **({"effect": tool.effect} if tool.effect else {}),
            }
            for tool in session.tools
        ]
    extra: dict[str, JsonValue] = {
        "project": session.project,
        "task": session.task,
        "origin": session.origin.value,
        "format": session.format,
    }
    if session.outcome != Outcome():
        extra["outcome"] = _outcome(session.outcome)
    return {
        "schema_version": VERSION,
        "session_id": session.key,
        "agent": agent,
        "steps": _steps(session),
        "extra": extra,
    }


def _steps(session: Session) -> list[JsonValue]:
    steps: list[_Step] = []
    turns: dict[int, _Step] = {}
    owners: dict[str, _Step] = {}
    previous: Step | None = None
    for step in session.steps:
        match step:
            case Message():
                steps.append(_Step(_SOURCES[step.speaker], step.text, step.at))
            case ToolCall():
                if step.turn not in turns:
                    if not (isinstance(previous, Message) and previous.speaker is Speaker.ASSISTANT):
                        steps.append(_Step("agent", "", step.at))
                    turns[step.turn] = steps[-1]
                owners[step.call_id] = turns[step.turn]
                turns[step.turn].calls.append(
                    {"tool_call_id": step.call_id, "function_name": step.tool, "arguments": step.arguments}
                )
            case ToolResult():
                owner = owners.get(step.call_id)
                if owner is None:  # a result without its call is an event of the system
                    owner = _Step("system", "", step.at)
                    steps.append(owner)
                owner.results.append(_result(step, of_call=step.call_id in owners))
        previous = step
    return [step.document(number) for number, step in enumerate(steps, start=1)]


def _result(step: ToolResult, *, of_call: bool) -> JsonValue:
    content = step.value if isinstance(step.value, str) else json.dumps(step.value, ensure_ascii=False)
    extra: dict[str, JsonValue] = {"is_error": step.status is not ResultStatus.OK}
    if step.status is ResultStatus.REFUSED:
        extra["refused"] = True
    called: dict[str, JsonValue] = {"source_call_id": step.call_id} if of_call else {}
    return {**called, "content": content, "extra": extra}


def _outcome(outcome: Outcome) -> JsonValue:
    stated: dict[str, JsonValue] = {"basis": outcome.basis}
    if outcome.reward is not None:
        stated["reward"] = outcome.reward
    if outcome.status.value != "unknown":
        stated["success"] = outcome.status.value == "success"
    return stated
