"""Runs a policy through a session and counts faults as the contract defines them, the same for every policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.errors import BadResult
from benchmarks.store_policies import Policy
from benchmarks.store_workloads import Workload
from instar.memstore.faults import FaultKind
from instar.memstore.ladder import Item, rungs
from instar.memstore.pages import Level, Pin


@dataclass(slots=True)
class Run:
    """What happened in one session under one policy."""

    faults: Counter[FaultKind] = field(default_factory=Counter)
    hits: int = 0
    alerts: int = 0
    feasible: int = 0
    """Turns in which the floors of all pages fit into the budget."""
    turns: int = 0
    excused: int = 0
    """Faults in the other turns, which no policy could prevent."""

    @property
    def total(self) -> int:
        """Faults that a policy could have prevented."""
        return sum(self.faults.values())

    @property
    def thrash(self) -> float:
        """Faults and alerts for each hit."""
        return (self.total + self.alerts) / (self.hits + 1)


def simulate(policy: Policy, workload: Workload, budget: int) -> Run:
    """One session. Faults count where the floors of all pages fit; elsewhere they are excused, for every policy.

    Raises:
        BadResult: the policy spent more than the budget.
    """
    run, items, demanded = Run(), dict[str, Item](), list[str]()
    seen: set[str] = set()
    first = True
    for number, turn in enumerate(workload.turns):
        for item in turn.arrivals:
            items[item.id] = item
            policy.arrive(item)
        for page_id in turn.departures:
            items.pop(page_id, None)
            policy.depart(page_id)
        levels = policy.context(number, demanded, turn.topics)
        spent = sum(items[page_id].costs[level] for page_id, level in levels.items())
        if spent > budget:
            raise BadResult("store", f"a policy spent {spent} of {budget} tokens")
        found = _faults(items, levels, first)
        found[FaultKind.REFETCH] += sum(page_id not in levels and page_id in seen for page_id in turn.needs)
        found[FaultKind.DUPLICATE_TOOL] += sum(page_id not in levels for page_id in turn.calls)
        run.hits += sum(page_id in levels for page_id in turn.needs)
        run.alerts += sum(page_id in levels for page_id in turn.calls)
        # What has just arrived is in the conversation itself.
        seen |= items.keys()
        run.turns += 1
        if _fits(items, demanded, budget):
            run.feasible += 1
            run.faults += found
        else:
            run.excused += sum(found.values())
        demanded = [page_id for page_id in turn.needs if page_id in items]
        first = turn.compaction or turn.reset
        if first:
            policy.compact()
    return run


def _faults(items: Mapping[str, Item], levels: Mapping[str, Level], first: bool) -> Counter[FaultKind]:
    found: Counter[FaultKind] = Counter()
    for item in items.values():
        at_floor = levels.get(item.id, Level.NONE) >= rungs(item)[0][0]
        if item.pin is Pin.HARD and not at_floor:
            found[FaultKind.PINNED_MISS] += 1
            found[FaultKind.BOOTSTRAP_MISS] += int(first and item.bootstrap)
    return found


def _fits(items: Mapping[str, Item], demanded: list[str], budget: int) -> bool:
    """Whether every floor fits, with what was demanded at the level demanded of the contract."""
    total = 0
    for item in items.values():
        ladder = rungs(item)
        wanted = Level.STRUCTURED if item.id in demanded else Level.NONE
        total += next((cost for level, cost, _ in ladder if level >= wanted), ladder[-1][1])
    return total <= budget
