"""What assembly knows of a page: its worth, and the levels worth having with the steps between them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from instar.memstore.pages import RESIDENCY, Level, Page, PageType, Pin
from instar.memstore.scopes import within

PIN_WEIGHT = {Pin.HARD: 2.0, Pin.SOFT: 0.6, Pin.NONE: 0.0}
TYPE_WEIGHT = {PageType.BOOTSTRAP: 1.5, PageType.PLAN: 1.0}
SCOPE_WEIGHT = 0.3
RECOMPUTE_WEIGHT = 0.4
_RECOMPUTE = {PageType.EVIDENCE: 1.0, PageType.CONVERSATION: 0.4}
_SEPARATOR = 1
"""Tokens between two pages of a context."""


@dataclass(frozen=True, slots=True)
class Item:
    """What assembly knows of a page. `worth` is its score without recency."""

    id: str
    pin: Pin
    bootstrap: bool
    path: tuple[Level, ...]
    """Levels it may have, ascending; the first is its floor."""
    costs: tuple[int, int, int, int, int]
    """Tokens at each level, NONE included."""
    worth: float
    recompute: float


def item_of(page: Page, scope: str, *, recompute: float | None = None) -> Item:
    """An item for a page, seen from a scope."""
    cost = _RECOMPUTE.get(page.type, 0.2) if recompute is None else recompute
    worth = (
        PIN_WEIGHT[page.pin]
        + TYPE_WEIGHT.get(page.type, 0.0)
        + (SCOPE_WEIGHT if within(page.scope, scope) else 0.0)
        + RECOMPUTE_WEIGHT * cost
        + page.importance
    )
    pointer, structured, compressed, full = (tokens + _SEPARATOR for tokens in page.forms.tokens)
    costs = (0, pointer, structured, compressed, full)
    path = RESIDENCY[page.type].path
    return Item(page.id, page.pin, page.type is PageType.BOOTSTRAP, path, costs, max(worth, 0.05), cost)


Rung = tuple[Level, int, int]
"""A level worth having: the level, its cost, how many steps of the path it lies above the floor."""


def rungs(item: Item) -> list[Rung]:
    """The levels of an item by strictly growing cost: a higher level that costs no more replaces a lower one."""
    found: list[Rung] = []
    for steps in range(len(item.path) - 1, -1, -1):
        level = item.path[steps]
        if not found or item.costs[level] < found[-1][1]:
            found.append((level, item.costs[level], steps))
    return found[::-1]


Step = tuple[float, str, Level, int, Level, float]
"""A step up: its worth per token (negated, so that the best sorts first), page, level, cost, level below, and what
the first would be without recency. Ties sort by page id and level."""


def hull(item: Item, ladder: list[Rung]) -> list[Step]:
    """Steps that lead from the floor to the top, each worth less per token than the one before."""
    corners = [ladder[0]]
    for rung in ladder[1:]:
        while len(corners) > 1 and _density(corners[-2], corners[-1]) <= _density(corners[-1], rung):
            corners.pop()
        corners.append(rung)
    found: list[Step] = []
    for low, high in pairwise(corners):
        rank = -item.worth * _density(low, high)
        found.append((rank, item.id, high[0], high[1] - low[1], low[0], rank))
    return found


def _density(low: Rung, high: Rung) -> float:
    return (high[2] - low[2]) / (high[1] - low[1])
