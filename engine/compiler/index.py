"""Sessions as the miner sees them: numbered calls, and the earlier results that each argument value occurs in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from instar.engine.compiler.effects import Effect, effect_of
from instar.engine.compiler.values import Path, Scalar, bindable, leaves, scalar_key
from instar.engine.session import Message, ResultStatus, Session, ToolResult

MAX_SOURCES = 12
"""Places kept for one argument value; a value that occurs everywhere says little."""


@dataclass(slots=True)
class Event:
    """One tool call. `end` is the position of the next call that may have changed the world, or of the last call."""

    position: int
    step: int
    result_step: int
    tool: str
    arguments: dict[str, JsonValue]
    turn: int
    status: ResultStatus | None
    value: JsonValue
    effect: Effect
    error: str | None = None
    end: int = 0
    links: dict[str, list[tuple[int, Path]]] = field(default_factory=dict)
    """Argument → (position of an earlier call of the same epoch, concrete path in its result).

    Of an argument that is a list of such values: where the first of them occurs.
    """

    @property
    def ok(self) -> bool:
        """Whether an answer was recorded that is not an error."""
        return self.status is ResultStatus.OK

    @property
    def writes(self) -> bool:
        """Whether the world may have changed: calls that failed or were refused changed nothing."""
        return self.effect == "write" and (self.status is None or self.status is ResultStatus.OK)


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """A session reduced to its calls."""

    session: Session
    order: str
    events: list[Event]
    turns: dict[int, set[int]]
    """Turn → positions of its calls."""
    texts: dict[int, str] = field(default_factory=dict)
    """What messages and results said, by step; filled when it is first asked for."""

    @property
    def task(self) -> str:
        """The task of the session."""
        return self.session.task

    def said(self, start: int, end: int) -> Iterator[str]:
        """Yield the text of all messages and results between two steps, but not what the agent passed to tools."""
        if not self.texts:
            for step in self.session.steps:
                if isinstance(step, Message):
                    self.texts[step.index] = step.text
                elif isinstance(step, ToolResult):
                    value = step.value
                    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                    self.texts[step.index] = text
        return (text for index, text in self.texts.items() if start <= index < end)

    def window(self, position: int, size: int) -> range:
        """Return the positions after `position` whose answers still hold together with it."""
        event = self.events[position]
        return range(position + 1, min(event.end, position + 1 + size, len(self.events)))


def trace(session: Session, overrides: Mapping[str, Effect] | None = None, window: int = 25) -> Trace:
    """Number the calls of a session, find where the world may change, and link arguments to earlier results."""
    schemas = {schema.name: schema for schema in session.tools}
    effects: dict[str, Effect] = {}
    events: list[Event] = []
    for call, result in session.exchanges():
        if call.tool not in effects:
            effects[call.tool] = effect_of(call.tool, schemas.get(call.tool), overrides)
        events.append(
            Event(
                position=len(events),
                step=call.index,
                result_step=-1 if result is None else result.index,
                tool=call.tool,
                arguments=call.arguments,
                turn=call.turn,
                status=None if result is None else result.status,
                value=None if result is None else result.value,
                effect=effects[call.tool],
                error=None if result is None else result.error,
            )
        )
    end = len(events)
    for event in reversed(events):
        event.end = end
        if event.writes:
            end = event.position
    _link(events, window)
    turns: dict[int, set[int]] = {}
    for event in events:
        turns.setdefault(event.turn, set()).add(event.position)
    return Trace(session, session.page_id, events, turns)


def linked_by(value: JsonValue) -> tuple[str, Scalar] | None:
    """Return the key of the scalar by which an argument is looked up in results: itself, or a list's first item."""
    if isinstance(value, list) and value and all(_telling(item) for item in value):
        value = value[0]
    return scalar_key(value) if isinstance(value, str | int | float) and bindable(value) else None


def _telling(value: JsonValue) -> bool:
    return isinstance(value, str | int | float) and bindable(value)


def _link(events: list[Event], window: int) -> None:
    for source in events:
        if not source.ok or source.effect != "read":
            continue
        wanted: dict[tuple[str, Scalar], list[tuple[Event, str]]] = {}
        for event in events[source.position + 1 : min(source.end, source.position + 1 + window)]:
            if event.step > source.result_step:
                for name, value in event.arguments.items():
                    key = linked_by(value)
                    if key is not None:
                        wanted.setdefault(key, []).append((event, name))
        if not wanted:
            continue
        for key, path in leaves(source.value, wanted):
            for event, name in wanted[key]:
                places = event.links.setdefault(name, [])
                if len(places) < MAX_SOURCES:
                    places.append((source.position, path))


def traces(
    sessions: Iterable[Session], overrides: Mapping[str, Effect] | None = None, window: int = 25
) -> dict[str, list[Trace]]:
    """Return the traces of every project, in an order that does not depend on that of the sessions."""
    projects: dict[str, dict[str, Trace]] = {}
    for session in sessions:
        found = trace(session, overrides, window)
        projects.setdefault(session.project, {}).setdefault(found.order, found)
    return {project: [found[key] for key in sorted(found)] for project, found in sorted(projects.items())}
