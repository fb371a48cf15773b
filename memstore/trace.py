"""The decision trace of a run, and its replay: the same inputs must give the same bytes.

A trace begins with a line that says whose run it is; then every page that came or went and every decision is a line.
It holds ids and numbers, never content.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from instar.memstore.assembly import POLICY, Selection, WorkingSet
from instar.memstore.errors import InvalidRequest
from instar.memstore.ladder import Item
from instar.memstore.pages import Level, Pin


@dataclass(frozen=True, slots=True)
class Run:
    """Whose decisions a trace holds."""

    name: str
    scope: str
    session: str
    policy: int
    """The version of the policy that decided."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first line in which a replay decided otherwise. Lines count from 1."""

    line: int
    recorded: str
    replayed: str
    policy: int | None = None
    """The policy that decided then, where it is another one than that of the replay."""


class TracedWorkingSet:
    """A working set that writes down everything it was asked and everything it decided."""

    def __init__(self, scope: str, session: str) -> None:
        self._working = WorkingSet()
        self.lines = [_line("run", [POLICY, scope, session])]
        """What was not taken yet."""

    def __contains__(self, page_id: object) -> bool:
        return page_id in self._working

    def __iter__(self) -> Iterator[str]:
        return iter(self._working)

    def add(self, item: Item) -> None:
        """Let a page compete."""
        self._working.add(item)
        fields = [item.id, item.pin, item.bootstrap, item.path, item.costs, item.worth, item.recompute]
        self.lines.append(_line("add", fields))

    def discard(self, page_id: str) -> None:
        """Take a page out."""
        self._working.discard(page_id)
        self.lines.append(_line("discard", page_id))

    def assemble(self, budget: int, demanded: Mapping[str, Level]) -> Selection:
        """One turn."""
        selection = self._working.assemble(budget, demanded)
        self.lines.append(_line("assemble", [budget, dict(demanded), decision(selection)]))
        return selection

    def take(self) -> list[str]:
        """The lines since the last time, to be stored."""
        lines, self.lines = self.lines, []
        return lines


def decision(selection: Selection) -> list[object]:
    """What was decided, in a form that compares byte by byte; the order of the pages counts."""
    levels = [[page_id, int(level)] for page_id, level in selection.levels.items()]
    return [levels, selection.tokens, selection.missing, selection.infeasible]


def run_of(name: str, first: str) -> Run | None:
    """Whose run it is, by the first line of its trace; None where it does not say."""
    try:
        what, (policy, scope, session) = json.loads(first)
    except (ValueError, TypeError):
        return None
    return Run(name, str(scope), str(session), int(policy)) if what == "run" else None


def replay(lines: Iterable[str]) -> Difference | None:
    """Decide again what a trace records; None when every decision is the same, byte by byte.

    Raises:
        InvalidRequest: a line is none of a trace.
    """
    working, policy = WorkingSet(), None
    for number, line in enumerate(lines, 1):
        try:
            what, given = json.loads(line)
            if what == "run":
                policy = None if given[0] == POLICY else int(given[0])
                continue
            again = _again(working, what, given)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise InvalidRequest(f"line {number} is none of a decision trace: {line[:80]!r}") from error
        if again is not None and again != line:
            return Difference(number, line, again, policy)
    return None


def decisions(lines: Iterable[str]) -> int:
    """How many decisions a trace holds."""
    return sum(line.startswith('["assemble",') for line in lines)


def _again(working: WorkingSet, what: object, given: Any) -> str | None:
    """Do once more what a line records; the line as it is now, where it records a decision."""
    match what, given:
        case "add", [str(page_id), pin, bool(bootstrap), [*path], [*costs], float() | int() as worth, recompute]:
            none, pointer, structured, compressed, full = map(int, costs)
            levels = tuple(map(Level, path))
            item = Item(
                page_id,
                Pin(pin),
                bootstrap,
                levels,
                (none, pointer, structured, compressed, full),
                worth,
                float(recompute),
            )
            working.add(item)
        case "discard", str(page_id):
            working.discard(page_id)
        case "assemble", [int(budget), dict() as demanded, _]:
            selection = working.assemble(budget, {page_id: Level(level) for page_id, level in demanded.items()})
            return _line("assemble", [budget, demanded, decision(selection)])
        case _:
            raise ValueError(what)
    return None


def _line(what: str, given: object) -> str:
    return json.dumps([what, given], separators=(",", ":"))
