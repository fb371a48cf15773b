"""The decision trace of a run, and its replay: the same inputs must give the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from instar.memstore.assembly import Selection, WorkingSet
from instar.memstore.ladder import Item
from instar.memstore.pages import Level, Pin


@dataclass(frozen=True, slots=True)
class Difference:
    """The first turn in which a replay decided otherwise."""

    line: int
    recorded: str
    replayed: str


class TracedWorkingSet:
    """A working set that writes down everything it was asked and everything it decided."""

    def __init__(self) -> None:
        self._working = WorkingSet()
        self.lines: list[str] = []
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


def replay(lines: Iterable[str]) -> Difference | None:
    """Decide again what a trace records; None when every decision is the same."""
    working = WorkingSet()
    for number, line in enumerate(lines, 1):
        what, given = json.loads(line)
        if what == "add":
            page_id, pin, bootstrap, path, costs, worth, recompute = given
            levels = tuple(Level(level) for level in path)
            working.add(Item(page_id, Pin(pin), bootstrap, levels, tuple(costs), worth, recompute))
        elif what == "discard":
            working.discard(given)
        else:
            budget, demanded, _ = given
            selection = working.assemble(budget, {page_id: Level(level) for page_id, level in demanded.items()})
            again = _line("assemble", [budget, demanded, decision(selection)])
            if again != line:
                return Difference(number, line, again)
    return None


def _line(what: str, given: object) -> str:
    return json.dumps([what, given], separators=(",", ":"))
