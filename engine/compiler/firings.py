"""What the miner counts: calls of one tool with the calls after them, and the follow-ups believed so far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pydantic import JsonValue

from instar.engine.compiler.index import Event, Trace
from instar.engine.compiler.values import Path, reach

Option = tuple[str, str, Path]
"""What an argument may come from: ("result", node, path), ("each", node, path) for the list of all that the path
leads to in one result, ("all", node, path) for that over all results, ("argument", name of the root's argument, ()),
("constant", canonical value, ()) or ("new", "", ())."""

RESULTS = frozenset({"result", "each", "all"})
TIED = RESULTS | {"argument"}
"""Kinds of options that predict a value."""

Key = tuple[tuple[str, JsonValue], ...]
"""The values that a binding predicts for a call, each with its type."""

NEW: Option = ("new", "", ())
ROOT = "root"


@dataclass(slots=True)
class Firing:
    """One successful call of the root tool, and the calls after it that the tree explains."""

    trace: Trace
    root: int
    nodes: dict[str, list[int]]
    owner: dict[int, str]

    @property
    def events(self) -> list[Event]:
        """The calls of the session."""
        return self.trace.events

    def reached(self, node: str, path: Path) -> list[JsonValue]:
        """Return what `path` leads to in the results of `node`, over all its calls."""
        return [value for at in self.nodes.get(node, ()) for value in reach(self.events[at].value, path)]


@dataclass(slots=True)
class Growth:
    """A follow-up that was believed, with its statistics."""

    name: str
    tool: str
    bindings: dict[str, Option]
    sessions: int
    tasks: int
    calls: int
    confidence: float
    wanted: float
    """Of all calls it would have made, the share that the agent made."""
    null_rate: float
    absent: bool
    """Whether its input was sometimes missing although its source was there."""
    looped: bool
    """Whether it runs inside a loop."""
    stage: int = 0
    """Rounds of loops that must have ended before it runs."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """The best follow-up that was not believed."""

    tool: str
    tasks: int
    reason: str


@dataclass(slots=True)
class Tree:
    """What grew: the follow-ups in order, the firings, and what was turned down."""

    tool: str
    firings: list[Firing]
    growths: list[Growth] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)
    predicted: dict[tuple[tuple[str, Option], ...], dict[int, set[Key]]] = field(default_factory=dict)
    """Argument values that bindings predict, by firing; what a follow-up takes does not change while others grow."""


@dataclass(slots=True)
class Use:
    """One call after a firing, with everything its arguments may come from."""

    firing: int
    event: Event
    options: dict[str, set[Option]]


def firings_of(tool: str, traces: Iterable[Trace]) -> list[Firing]:
    """Return every successful call of `tool`."""
    return [
        Firing(trace, event.position, {ROOT: [event.position]}, {event.position: ROOT})
        for trace in traces
        for event in trace.events
        if event.tool == tool and event.ok
    ]
