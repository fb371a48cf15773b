"""Assembly under a token budget: a multiple-choice knapsack with hard floors. No I/O, no model, no randomness.

Floors come first; what is left is spent on steps up, best worth per token first. Each page's steps are those of
the concave hull of its levels (a step that is worse than the one after it is taken together with that one), so the
greedy order never has to skip a step for the sake of a later one (Sinha and Zoltners, 1979).

The order of the steps is kept from turn to turn. Only pages that were demanded lately (`hot`) change their worth, so
that their order is nearly the one of the turn before; their old place is kept for when they have cooled.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import ceil, log

from instar.memstore.ladder import Item, Rung, Step, hull, rungs
from instar.memstore.pages import Level, Pin
from instar.memstore.ranking import Climb, Ranking, best_levels

POLICY = 1
"""Grows whenever the same pages and demands may lead to another selection."""
RECENCY_WEIGHT = 0.6
DECAY = 0.88
_FADING, _PACE = 1 - DECAY, -log(DECAY)
COLD = 1 / 8
"""Recency below this counts as none."""
TOLERANCE = 0.02
"""A greedy result that can fall short by no more than this share is good enough. Otherwise what is left is spent on
smaller steps, and if that does not do either, the result is refined."""
CORE = 16
"""How many pages are refined at once."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The level of every page in the context, and what could not be kept."""

    levels: Mapping[str, Level]
    tokens: int
    missing: tuple[str, ...] = ()
    """Hard-pinned or demanded pages that do not fit at the level they must have."""
    infeasible: tuple[str, ...] = ()
    """Other pages whose floor does not fit."""


_Kept = tuple[dict[str, Level], int, tuple[str, ...], tuple[str, ...]]
"""Levels so far, tokens left, what is missing, what is infeasible."""


class WorkingSet:
    """The pages that compete for a context, over many turns.

    `assemble` is one turn. Its work grows with what changed since the turn before and with what it selects, not
    with the pages that stay as they were.
    """

    def __init__(self) -> None:
        self._items: dict[str, Item] = {}
        self._rungs: dict[str, list[Rung]] = {}
        self._steps: dict[str, list[Step]] = {}
        self._cold = Ranking()
        """Steps of all pages, as if none of them had been demanded lately."""
        self._hot: list[Step] = []
        """Steps of the pages that were, in their order of the last turn. Each stands before its twin above."""
        self._recency: dict[str, tuple[float, int]] = {}
        """Of hot pages: how recent, as of which turn."""
        self._cooling: dict[int, set[str]] = {}
        """Which pages cease to be hot in which turn, unless they are demanded again."""
        self._turn = 0
        self._pinned: dict[str, Level] = {}
        self._pinned_cost = 0
        self._order: list[tuple[float, float, str]] = []
        """All but the hard-pinned, in the order in which floors are granted."""
        self._names: list[str] = []
        self._floors: dict[str, Level] = {}
        self._paid: list[int] = []
        """Cost of the first n + 1 floors together."""
        self._least: list[int] = []
        """The lowest cost of the floors from n on."""
        self._kept: Mapping[str, Level] = {}
        """What is demanded this turn: its level is not given away."""
        self._least_step = 0
        """No step costs less."""
        self._stale = False

    def __contains__(self, page_id: object) -> bool:
        return page_id in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: Item) -> None:
        """Let a page compete; an item of the same page is replaced and its recency kept."""
        recency = self._recency.get(item.id)
        self.discard(item.id)
        self._items[item.id] = item
        ladder = self._rungs[item.id] = rungs(item)
        self._steps[item.id] = hull(item, ladder)
        if item.pin is Pin.HARD:
            self._pinned[item.id] = ladder[0][0]
            self._pinned_cost += ladder[0][1]
        else:
            insort(self._order, _claim(item))
        self._stale = True
        for step in self._steps[item.id]:
            self._cold.add(step)
        if recency is not None:
            self._heat(item.id, self._faded(recency))
            self._hot.sort()

    def discard(self, page_id: str) -> None:
        """Take a page out; nothing happens when it is not there."""
        item = self._items.get(page_id)
        if item is None:
            return
        self._cool(page_id)
        for step in self._steps[page_id]:
            self._cold.discard(step)
        if item.pin is Pin.HARD:
            del self._pinned[page_id]
            self._pinned_cost -= self._rungs[page_id][0][1]
        else:
            del self._order[bisect_left(self._order, _claim(item))]
        self._stale = True
        del self._items[page_id], self._rungs[page_id], self._steps[page_id]

    def assemble(self, budget: int, demanded: Mapping[str, Level] | None = None) -> Selection:
        """Select a level for every page that fits, and let one turn pass.

        The tokens of the selection never exceed the budget. A demanded page is given at least the level asked for,
        or is named in `missing`; ids that are not in the set are left to the caller.
        """
        demand = {page_id: level for page_id, level in demanded.items() if page_id in self._items} if demanded else {}
        if self._stale:
            self._refresh()
        chosen, left, missing, infeasible = self._keep(budget, demand)
        self._kept = demand
        left = self._climb(chosen, left)
        self._pass(demand)
        return Selection(chosen, budget - left, missing, infeasible)

    def score(self, page_id: str) -> float:
        """What one step of this page is worth now."""
        recency = self._recency.get(page_id)
        return self._items[page_id].worth + (RECENCY_WEIGHT * self._faded(recency) if recency else 0.0)

    # The three phases

    def _keep(self, budget: int, demand: Mapping[str, Level]) -> _Kept:
        """What is required, and then the floor of everything else."""
        wanted = {page_id: self._rung(page_id, level) for page_id, level in demand.items()}
        left = budget - self._pinned_cost - (self._paid[-1] if self._paid else 0)
        for page_id, rung in wanted.items():
            left -= rung[1] - self._rungs[page_id][0][1]
        if left < 0:
            return self._keep_some(budget, wanted)
        chosen = self._floors.copy()
        for page_id, rung in wanted.items():
            chosen[page_id] = rung[0]
        return chosen, left, (), ()

    def _keep_some(self, budget: int, wanted: Mapping[str, Rung]) -> _Kept:
        """Not all of it fits."""
        left = budget - self._pinned_cost
        for page_id, rung in wanted.items():
            left -= rung[1] - (self._rungs[page_id][0][1] if page_id in self._pinned else 0)
        missing: tuple[str, ...] = ()
        if left >= 0:
            chosen = self._pinned.copy()
            for page_id, rung in wanted.items():
                chosen[page_id] = rung[0]
        else:
            chosen, left, missing = self._require_some(budget, wanted)
        infeasible, left = self._floor(chosen, left, missing, wanted)
        return chosen, left, missing, infeasible

    def _require_some(self, budget: int, wanted: Mapping[str, Rung]) -> tuple[dict[str, Level], int, tuple[str, ...]]:
        """Not all of it fits: hard pins before demands, then by worth; a demanded pinned page keeps its floor."""
        chosen: dict[str, Level] = {}
        missing: list[str] = []
        paid: dict[str, int] = {}
        left = budget
        pinned = {page_id: self._rungs[page_id][0] for page_id in self._pinned}
        for required in (pinned, wanted):
            for page_id in sorted(required, key=lambda page_id: (-self.score(page_id), page_id)):
                level, cost, _ = required[page_id]
                more = cost - paid.get(page_id, 0)
                if more <= left and page_id not in missing:
                    chosen[page_id], paid[page_id], left = level, cost, left - more
                elif page_id not in missing:
                    missing.append(page_id)
        return chosen, left, tuple(missing)

    def _floor(
        self, chosen: dict[str, Level], left: int, missing: tuple[str, ...], wanted: Mapping[str, Rung]
    ) -> tuple[tuple[str, ...], int]:
        """Floors of the rest, as many as can be paid in their order, and then what still fits."""
        required = {
            page_id: chosen[page_id] for page_id in wanted if page_id in chosen and page_id not in self._pinned
        }
        # Floors of required pages are paid already; first it is counted as if all were still to be paid.
        fit = bisect_right(self._paid, left)
        granted = self._names[:fit]
        chosen.update(zip(granted, map(self._floors.__getitem__, granted), strict=True))
        chosen.update(required)
        left -= self._paid[fit - 1] if fit else 0
        left += sum(self._rungs[page_id][0][1] for page_id in required if self._claimed_at(page_id) < fit)
        infeasible: list[str] = []
        for at in range(fit, len(self._names)):
            if left < self._least[at]:
                infeasible += self._names[at:]
                break
            page_id = self._names[at]
            cost = self._rungs[page_id][0][1]
            if cost <= left and page_id not in required:
                chosen[page_id], left = self._floors[page_id], left - cost
            else:
                infeasible.append(page_id)
        named = required.keys() | set(missing)
        return tuple([page_id for page_id in infeasible if page_id not in named]), left

    def _climb(self, chosen: dict[str, Level], left: int) -> int:
        """Steps up, the best first; what cannot be paid any more is passed over."""
        hot, at = self._with_demanded(chosen), 0
        climb = Climb(chosen, left, self._least_step)
        for cheapest, block in self._cold.blocks():
            if climb.stop and cheapest > climb.left:
                continue
            upto = bisect_right(hot, block[-1], at)
            climb.take(sorted(hot[at:upto] + block) if upto > at else block)
            at = upto
            if climb.stop:
                if climb.left < self._least_step or climb.gap <= TOLERANCE:
                    break
                hot, at = [step for step in hot[at:] if step[3] <= climb.left], 0
        else:
            climb.take(hot[at:])
        if climb.gap > TOLERANCE:
            return self._refine(chosen, climb.left, climb.stop)
        return climb.left

    def _with_demanded(self, chosen: Mapping[str, Level]) -> list[Step]:
        """The hot steps, and those of demanded pages from where they stand, where no corner need be."""
        extra: list[Step] = []
        for page_id in self._kept:
            level, item = chosen.get(page_id, Level.NONE), self._items[page_id]
            if level and level is not item.path[-1]:
                factor = self.score(page_id) / item.worth
                above = [rung for rung in self._rungs[page_id] if rung[0] >= level]
                extra += [(step[0] * factor, *step[1:]) for step in hull(item, above)]
        return sorted(self._hot + extra) if extra else self._hot

    def _refine(self, chosen: dict[str, Level], left: int, stop: float) -> int:
        """Where one step more or less matters, the pages next to where the greedy stopped are solved exactly."""
        at = bisect_left(self._hot, stop, key=lambda step: step[0])
        near = self._hot[max(at - CORE, 0) : at + CORE] + self._cold.near(stop, CORE)
        near.sort(key=lambda step: (abs(log(step[0] / stop)), step[1]))
        core = list(dict.fromkeys(step[1] for step in near if step[1] in chosen))[:CORE]
        options = []
        for page_id in core:
            # A demanded page is not taken below what it was given; that is less than demanded where it is missing.
            score, least = self.score(page_id), min(self._kept.get(page_id, Level.NONE), chosen[page_id])
            ladder = [rung for rung in self._rungs[page_id] if rung[0] >= least]
            options.append([(cost, score * steps, level) for level, cost, steps in ladder])
        tokens = left + sum(self._items[page_id].costs[chosen[page_id]] for page_id in core)
        levels, spent = best_levels(options, tokens)
        chosen.update(zip(core, levels, strict=True))
        return tokens - spent

    # Turns

    def _pass(self, demand: Mapping[str, Level]) -> None:
        """Recency fades, and what was demanded gets fresh.

        A rank is a sum of a part that stays and a part that fades, so the next one follows from the last.
        """
        self._turn += 1
        recency = self._recency
        for page_id in self._cooling.pop(self._turn, ()):
            del recency[page_id]
        self._hot = [
            (DECAY * rank + _FADING * still, page_id, level, cost, below, still)
            for rank, page_id, level, cost, below, still in self._hot
            if page_id in recency
        ]
        for page_id in demand:
            before = recency.get(page_id)
            self._heat(page_id, 1.0 + (self._faded(before) if before else 0.0))
        self._hot.sort()  # nearly in order already, which takes little more than looking

    def _faded(self, recency: tuple[float, int]) -> float:
        value, turn = recency
        return float(value * DECAY ** (self._turn - turn))

    def _heat(self, page_id: str, recency: float) -> None:
        """Rank the steps of a page with this recency from now on; the caller puts them into their place."""
        if page_id in self._recency:
            self._cool(page_id)
        now = self._recency[page_id] = (recency, self._turn)
        self._cooling.setdefault(_cools_at(now), set()).add(page_id)
        factor = 1.0 + RECENCY_WEIGHT * recency / self._items[page_id].worth
        self._hot += [
            (rank * factor, page_id, level, cost, below, still)
            for rank, _, level, cost, below, still in self._steps[page_id]
        ]

    def _cool(self, page_id: str) -> None:
        """End the recency of a page, when it has any."""
        if recency := self._recency.pop(page_id, None):
            self._cooling[_cools_at(recency)].discard(page_id)
            self._hot = [step for step in self._hot if step[1] != page_id]

    def _rung(self, page_id: str, level: Level) -> Rung:
        """The lowest rung at or above a level; the top where the path does not reach it."""
        ladder = self._rungs[page_id]
        for rung in ladder:
            if rung[0] >= level:
                return rung
        return ladder[-1]

    def _claimed_at(self, page_id: str) -> int:
        """The place of a page in the order in which floors are granted."""
        return bisect_left(self._order, _claim(self._items[page_id]))

    def _refresh(self) -> None:
        self._names = [claim[2] for claim in self._order]
        floors = [self._rungs[page_id][0] for page_id in self._names]
        self._floors = {page_id: ladder[0][0] for page_id, ladder in self._rungs.items()}
        self._paid = list(accumulate(rung[1] for rung in floors))
        self._least = list(accumulate((rung[1] for rung in reversed(floors)), min))[::-1]
        ladders = self._rungs.values()
        self._least_step = min((high[1] - low[1] for ladder in ladders for low, high in pairwise(ladder)), default=0)
        self._stale = False


def _cools_at(recency: tuple[float, int]) -> int:
    """The turn in which a recency falls below what counts."""
    value, turn = recency
    return turn + max(ceil(log(value / COLD) / _PACE), 1)


def _claim(item: Item) -> tuple[float, float, str]:
    """Floors are granted to what is dear to make again, then to what is worth most."""
    return (-item.recompute, -item.worth, item.id)
