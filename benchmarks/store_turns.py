"""One turn of assembly beside a straightforward full pass, and the greedy's choices beside the exact optimum."""

from __future__ import annotations

import importlib.util
import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from benchmarks.data import recorded
from benchmarks.errors import DataMissing
from benchmarks.store_workloads import BUDGETS, Workload, families
from instar.memstore.assembly import WorkingSet
from instar.memstore.ladder import RECOMPUTE_WEIGHT, Item, rungs
from instar.memstore.oracle import best_gain, gain
from instar.memstore.pages import RESIDENCY, Level, PageType, Pin

_REFERENCE = "../bench/greedy_reference.py"
"""Beside the recorded sessions."""


@dataclass(frozen=True, slots=True)
class Turns:
    """Times of one turn in microseconds, ours and the reference's, and how the worth of the choices compares."""

    median: float
    p95: float
    reference_median: float
    lowest_worth: float
    """The worth of our choice as a share of the reference's, in the worst turn."""

    @property
    def speedup(self) -> float:
        """How many times faster, at the median."""
        return self.reference_median / self.median


def load_reference() -> ModuleType:
    """The straightforward pass.

    Raises:
        DataMissing: it is not beside the checkout.
    """
    path = recorded(_REFERENCE)
    spec = importlib.util.spec_from_file_location("greedy_reference", path)
    if spec is None or spec.loader is None:
        raise DataMissing("greedy_reference.py", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measure_turns(count: int, budget: int, turns: int) -> Turns:
    """Both on the same pages and demands, turn by turn; each is timed on its own, after the other."""
    reference, pages = load_reference(), _pages(count)
    demands = [pages[(turn * 7) % count]["id"] for turn in range(turns)]
    working = WorkingSet()
    for page in pages:
        working.add(_item(page, reference))
    working.assemble(budget, {})
    ours: list[Mapping[str, Level]] = []
    times = _times(lambda page_id: ours.append(working.assemble(budget, {page_id: Level.FULL}).levels), demands)
    recency: dict[str, float] = {}
    theirs: list[tuple[dict[str, str], dict[str, float]]] = []

    def straightforward(page_id: str) -> None:
        chosen = reference.select(pages, [page_id], budget, recency)
        reference.touch(recency, [page_id])
        theirs.append((chosen, recency))

    reference_times = _times(straightforward, demands)
    shares = _compare(reference, pages, ours, theirs, demands)
    return Turns(
        median=statistics.median(times),
        p95=statistics.quantiles(times, n=20)[-1],
        reference_median=statistics.median(reference_times),
        lowest_worth=min(shares),
    )


def _times(turn: Callable[[str], None], demands: list[str]) -> list[float]:
    found = []
    for page_id in demands:
        start = time.perf_counter()
        turn(page_id)
        found.append((time.perf_counter() - start) * 1e6)
    return found


def _compare(
    reference: ModuleType,
    pages: list[dict[str, Any]],
    ours: list[Mapping[str, Level]],
    theirs: list[tuple[dict[str, str], dict[str, float]]],
    demands: list[str],
) -> list[float]:
    """Both choices of every turn by the reference's own scores."""
    recency: dict[str, float] = {}
    shares = []
    for mine, (chosen, _), page_id in zip(ours, theirs, demands, strict=True):
        scores = {
            page["id"]: page["utility"]
            + reference.PIN[page["pin"]]
            + 0.6 * recency.get(page["id"], 0.0)
            + RECOMPUTE_WEIGHT * page["recompute"]
            for page in pages
        }
        worth = sum(scores[name] * int(level) for name, level in mine.items())
        shares.append(worth / sum(scores[name] * reference.RANK[level] for name, level in chosen.items()))
        reference.touch(recency, [page_id])
    return shares


def _pages(count: int) -> list[dict[str, Any]]:
    rnd, pages = random.Random(1), []
    for number in range(count):
        full = rnd.randint(40, 400)
        tokens = {"pointer": 8, "structured": full // 5 + 8, "compressed": full // 3 + 8, "full": full + 8}
        pin = rnd.choice(["none"] * 8 + ["soft", "hard"])
        utility, recompute = rnd.random() * 10, rnd.random() * 10
        pages.append(
            {
                "id": f"p{number}",
                "pin": pin,
                "floor": "pointer",
                "tokens": tokens,
                "utility": utility,
                "recompute": recompute,
            }
        )
    return pages


def _item(page: dict[str, Any], reference: ModuleType) -> Item:
    tokens = page["tokens"]
    costs = (0, tokens["pointer"], tokens["structured"], tokens["compressed"], tokens["full"])
    worth = page["utility"] + reference.PIN[page["pin"]] + RECOMPUTE_WEIGHT * page["recompute"]
    path = RESIDENCY[PageType.EVIDENCE].path
    return Item(page["id"], Pin(page["pin"]), False, path, costs, worth, page["recompute"])


def measure_optimum(seeds: int) -> list[float]:
    """The worth of the upgrades as a share of the exact optimum, for every turn in which there is a choice."""
    shares: list[float] = []
    for seed in range(seeds):
        for workload in families(seed):
            for budget in BUDGETS:
                shares += _shares(workload, budget)
    return shares


def _shares(workload: Workload, budget: int) -> list[float]:
    working, found = WorkingSet(), []
    demand: dict[str, Level] = {}
    items: dict[str, Item] = {}
    for turn in workload.turns:
        for item in turn.arrivals:
            working.add(item)
            items[item.id] = item
        for page_id in turn.departures:
            working.discard(page_id)
            items.pop(page_id, None)
            demand.pop(page_id, None)
        ladders = {}
        for item in items.values():
            ladder = rungs(item)
            if item.id in demand:
                ladder = [rung for rung in ladder if rung[0] >= demand[item.id]] or ladder[-1:]
            ladders[item.id] = (working.score(item.id), ladder)
        selection = working.assemble(budget, demand)
        left = budget - sum(ladder[0][1] for _, ladder in ladders.values())
        if left >= 0 and not selection.missing and not selection.infeasible:
            best = best_gain(list(ladders.values()), left)
            reached = {page_id: items[page_id].path.index(level) for page_id, level in selection.levels.items()}
            if best > 0:
                found.append(gain(ladders, reached) / best)
        demand = dict.fromkeys((need for need in turn.needs if need in items), Level.STRUCTURED)
    return found
