"""What a compiled skill would have saved in a recorded session, call by call, and whether it does what was recorded.

Words: *exact*: the skill makes calls that the agent made. *superset*: and further reading ones, without error.
*wrong*: a call contradicts the recording, or an extra call ends in an error. *uncovered*: a call that nobody recorded
and no environment could answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Protocol

from pydantic import JsonValue

from benchmarks.emitted import load_run
from instar.engine.compiler.index import Event, Trace
from instar.engine.compiler.uses import Answers, answers_around, error_text, starts
from instar.engine.compiler.values import canonical
from instar.engine.documents import Pattern


class World(Protocol):
    """Answers calls that the recording does not hold, in the state the session was in."""

    def answer(self, trace: Trace, position: int, tool: str, arguments: dict[str, JsonValue]) -> JsonValue:
        """Answer, raise `ToolFailed` for the tool's own error, or `Unanswerable`."""
        ...


class ToolFailed(Exception):
    """The tool answered with an error."""


class Unanswerable(Exception):
    """Nobody recorded this call, and nothing can make it."""


class Cassette:
    """No environment: only recordings answer."""

    def answer(self, trace: Trace, position: int, tool: str, arguments: dict[str, JsonValue]) -> JsonValue:
        """Raise `Unanswerable`."""
        raise Unanswerable(tool)


@dataclass(frozen=True, slots=True)
class Use:
    """One use of a skill in place of recorded calls."""

    pattern: Pattern
    position: int
    arguments: dict[str, JsonValue]
    made: tuple[str, ...]
    covered: frozenset[int]
    turns: frozenset[int]
    verdict: str

    @property
    def saved(self) -> int:
        """Turns wholly replaced, less the turn that calls the skill."""
        return len(self.turns) - 1


@dataclass(slots=True)
class Score:
    """Sums over sessions."""

    sessions: int = 0
    covered: int = 0
    turns: int = 0
    saved: int = 0
    uses: int = 0
    issued: int = 0
    needed: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)

    def add(self, trace: Trace, uses: Sequence[Use]) -> None:
        """Count one session."""
        self.sessions += 1
        self.covered += any(use.saved > 0 for use in uses)
        self.turns += len(trace.turns)
        for use in uses:
            self.uses += 1
            self.saved += use.saved
            self.issued += len(use.made)
            self.needed += len({call_key(trace.events[at]) for at in use.covered})
            self.verdicts[use.verdict] += 1

    @property
    def saved_share(self) -> float:
        """Turns saved per turn."""
        return self.saved / max(self.turns, 1)

    @property
    def coverage(self) -> float:
        """Share of sessions in which a skill saved a turn."""
        return self.covered / max(self.sessions, 1)

    @property
    def right_share(self) -> float:
        """Share of uses that were exact or a superset."""
        return (self.verdicts["exact"] + self.verdicts["superset"]) / max(self.uses, 1)

    @property
    def needed_share(self) -> float:
        """Share of the calls made that the agent made too."""
        return self.needed / max(self.issued, 1)


def call_key(event: Event) -> str:
    """One text per call."""
    return canonical([event.tool, event.arguments])


Decide = Callable[[Trace, Event, Pattern], bool]
"""Whether to use the skill at a call, from what is visible before it."""


@dataclass(slots=True)
class Replayer:
    """Replays sessions with skills at hand."""

    patterns: Sequence[Pattern]
    world: World

    def needed(self, trace: Trace) -> list[Use]:
        """Use a skill wherever it really saves a turn, the one that saves most."""
        uses: list[Use] = []
        done: set[int] = set()
        for event in trace.events:
            if event.position in done or not event.ok:
                continue
            found = [use for use in self.options(trace, event, done) if use.saved > 0]
            if found:
                best = max(found, key=lambda use: (use.saved, -len(use.made), use.pattern.id))
                uses.append(best)
                done |= best.covered
        return uses

    def fired(self, trace: Trace, decide: Decide) -> list[Use]:
        """Use a skill wherever the rule says so, whether or not that saves a turn."""
        uses: list[Use] = []
        done: set[int] = set()
        for event in trace.events:
            if event.position in done:
                continue
            for pattern in self.patterns:
                given = next((a for a in self.starts(trace, pattern, event)), None)
                if given is None or not decide(trace, event, pattern):
                    continue
                use = self.use(trace, event, pattern, given, done)
                uses.append(use)
                done |= use.covered
                break
        return uses

    def starts(self, trace: Trace, pattern: Pattern, event: Event) -> Iterable[dict[str, JsonValue]]:
        """The arguments with which the skill could stand in for this call."""
        for _, given in starts(pattern.plan, trace, event):
            yield given

    def options(self, trace: Trace, event: Event, done: set[int]) -> list[Use]:
        """Every way to use a skill at a call."""
        found = []
        for pattern in self.patterns:
            switches = sorted({node.switch for node in pattern.plan.nodes if node.switch})
            for given in self.starts(trace, pattern, event):
                for chosen in product([False, True], repeat=len(switches)):
                    arguments = given | {name: True for name, on in zip(switches, chosen, strict=True) if on}
                    found.append(self.use(trace, event, pattern, arguments, done))
        return found

    def use(
        self, trace: Trace, event: Event, pattern: Pattern, arguments: dict[str, JsonValue], done: set[int]
    ) -> Use:
        """Run the emitted code in place of a call and compare with what was recorded."""
        known = answers_around(trace, event.position)
        tools = _Tools(trace, event.position, known, self.world)
        verdict = ""
        try:
            load_run(pattern.plan)(tools, **arguments)
        except _Tools.ToolError:
            verdict = "" if tools.only_recorded else "wrong"
        except Unanswerable:
            verdict = "uncovered"
        except ValueError:  # what the code raises when no look-up led anywhere
            verdict = "" if tools.only_recorded else "wrong"
        except (LookupError, TypeError, AttributeError):
            verdict = "wrong"
        made = tuple(dict.fromkeys(tools.made))
        keys = set(made)
        covered = frozenset(
            at
            for at in range(event.position, max(event.end, event.position + 1))
            if at not in done and call_key(trace.events[at]) in keys and trace.events[at].status is not None
        )
        gone = covered | done
        turns = frozenset(trace.events[at].turn for at in covered if trace.turns[trace.events[at].turn] <= gone)
        if not verdict:
            verdict = "wrong" if tools.failed else "superset" if tools.extra else "exact"
        return Use(pattern, event.position, arguments, made, covered, turns, verdict)


class _Tools:
    """The `tools` object of the emitted code."""

    class ToolError(Exception):
        pass

    def __init__(self, trace: Trace, position: int, known: Answers, world: World) -> None:
        self.trace, self.position, self.known, self.world = trace, position, known, world
        self.made: list[str] = []
        self.extra = 0
        self.failed = 0

    @property
    def only_recorded(self) -> bool:
        return not self.failed

    def call(self, tool: str, arguments: dict[str, JsonValue]) -> JsonValue:
        key = canonical([tool, arguments])
        self.made.append(key)
        event = self.known.known.get(key)
        if event is not None:
            if not event.ok:
                raise self.ToolError(error_text(event))
            return event.value
        self.extra += 1
        try:
            return self.world.answer(self.trace, self.position, tool, arguments)
        except ToolFailed as failure:
            self.failed += 1
            raise self.ToolError(str(failure)) from None
