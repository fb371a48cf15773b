"""Ways to fill a context, ours and others, behind one small interface: what the simulator lets compete.

The others are given what their kind needs: a retriever that sees topics, a summary, the future. All obey the budget.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from benchmarks.store_workloads import Turn, Workload
from instar.memstore.assembly import WorkingSet
from instar.memstore.ladder import Item
from instar.memstore.pages import Level, Pin

_SUMMARY = 40
"""Tokens of the summary that a compaction leaves."""


class Policy(Protocol):
    """Fills a context turn by turn."""

    def arrive(self, item: Item) -> None:
        """A page is there from now on."""
        ...

    def depart(self, page_id: str) -> None:
        """A page is done with."""
        ...

    def context(self, turn: int, demanded: Sequence[str], topics: Sequence[str]) -> Mapping[str, Level]:
        """What is in the context of this turn; `demanded` are the pages that the agent looked for in the last one."""
        ...

    def compact(self) -> None:
        """The conversation is compacted or reset after this turn."""
        ...


@dataclass(slots=True)
class Contract:
    """The page store's own: floors for all, upgrades with what is left."""

    budget: int
    working: WorkingSet = field(default_factory=WorkingSet)

    def arrive(self, item: Item) -> None:
        self.working.add(item)

    def depart(self, page_id: str) -> None:
        self.working.discard(page_id)

    def context(self, turn: int, demanded: Sequence[str], topics: Sequence[str]) -> Mapping[str, Level]:
        wanted = dict.fromkeys((page_id for page_id in demanded if page_id in self.working), Level.STRUCTURED)
        return self.working.assemble(self.budget, wanted).levels

    def compact(self) -> None:
        """Nothing is lost by it."""


@dataclass(slots=True)
class _Full:
    """Whole pages only, as most memories keep them."""

    budget: int
    workload: Workload
    pages: OrderedDict[str, Item] = field(default_factory=OrderedDict)

    def arrive(self, item: Item) -> None:
        self.pages[item.id] = item

    def depart(self, page_id: str) -> None:
        self.pages.pop(page_id, None)

    def fill(self, order: Sequence[str], budget: int | None = None) -> dict[str, Level]:
        left, chosen = self.budget if budget is None else budget, dict[str, Level]()
        for page_id in order:
            cost = self.pages[page_id].costs[Level.FULL]
            if cost <= left and page_id not in chosen:
                chosen[page_id], left = Level.FULL, left - cost
        return chosen

    def found(self, topics: Sequence[str]) -> list[str]:
        """What a retriever finds: pages of these topics, the newest first."""
        newest = list(reversed(self.pages))
        return [page_id for topic in topics for page_id in newest if self.workload.topic.get(page_id) == topic]

    def compact(self) -> None:
        """Nothing by itself."""


@dataclass(slots=True)
class RetrievalOnly(_Full):
    """Every turn anew: what the retriever finds for it, nothing else."""

    def context(self, turn: int, demanded: Sequence[str], topics: Sequence[str]) -> Mapping[str, Level]:
        return self.fill(self.found(topics))


@dataclass(slots=True)
class CachedRetrieval(_Full):
    """What was found stays as long as there is room; the least recently found goes first."""

    cache: list[str] = field(default_factory=list)

    def context(self, turn: int, demanded: Sequence[str], topics: Sequence[str]) -> Mapping[str, Level]:
        fresh = self.found(topics)
        order = [*fresh, *(page_id for page_id in self.cache if page_id not in fresh and page_id in self.pages)]
        chosen = self.fill(order)
        self.cache = [page_id for page_id in order if page_id in chosen]
        return chosen


@dataclass(slots=True)
class Lru(_Full):
    """Pinned pages, and then what was used last."""

    used: dict[str, int] = field(default_factory=dict)

    def context(self, turn: int, demanded: Sequence[str], topics: Sequence[str]) -> Mapping[str, Level]:
        self.used.update(dict.fromkeys(demanded, turn))
        for page_id in self.pages:
            self.used.setdefault(page_id, turn)
        order = sorted(self.pages, key=lambda p: (self.pages[p].pin is not Pin.HARD, -self.used[p], p))
        return self.fill(order)


@dataclass(slots=True)
class CompactionHybrid(_Full):
    """Pinned pages and the recent conversation, older pages in a summary, and retrieval for what is asked."""

    recent: list[str] = field(default_factory=list)

    def arrive(self, item: Item) -> None:
        self.pages[item.id] = item
        self.recent.append(item.id)

    def context(self, turn: int, demanded: Sequence[str], topics: Sequence[str]) -> Mapping[str, Level]:
        pinned = [page_id for page_id, item in self.pages.items() if item.pin is not Pin.NONE]
        recent = [page_id for page_id in reversed(self.recent) if page_id in self.pages]
        order = [*pinned, *(p for p in demanded if p in self.pages), *self.found(topics), *recent]
        return self.fill(order, self.budget - _SUMMARY)

    def compact(self) -> None:
        self.recent = self.recent[-1:]


@dataclass(slots=True)
class LookAhead(_Full):
    """The greedy with three turns of look-ahead: knows what will be needed, keeps whole pages."""

    def context(self, turn: int, demanded: Sequence[str], topics: Sequence[str]) -> Mapping[str, Level]:
        ahead: list[Turn] = list(self.workload.turns[turn : turn + 3])
        coming = [page_id for step in ahead for page_id in (*step.needs, *step.calls) if page_id in self.pages]
        pinned = [page_id for page_id, item in self.pages.items() if item.pin is Pin.HARD]
        return self.fill([*pinned, *coming, *reversed(self.pages)])


POLICIES: dict[str, Callable[[int, Workload], Policy]] = {
    "contract": lambda budget, _: Contract(budget),
    "retrieval_only": RetrievalOnly,
    "cached_retrieval": CachedRetrieval,
    "compaction_hybrid": CompactionHybrid,
    "lru": Lru,
    "look_ahead": LookAhead,
}
"""Short name to policy."""
