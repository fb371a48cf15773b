"""What an agent goes through, as pages that come and go and are needed: four families from fixed seeds, and tasks."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from instar.memstore.ladder import PIN_WEIGHT, RECOMPUTE_WEIGHT, SCOPE_WEIGHT, TYPE_WEIGHT, Item
from instar.memstore.pages import RESIDENCY, PageType

BUDGETS = (120, 180, 240, 300, 380, 500)
"""Tokens; those of the ClawVM paper."""
_TURNS = 36
_POINTER = 6


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: what is new before it, what the agent needs in it, what happens after it."""

    arrivals: tuple[Item, ...] = ()
    departures: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    """Pages the agent looks for in its context."""
    calls: tuple[str, ...] = ()
    """Pages of tool results that the agent asks for again unless it sees them."""
    topics: tuple[str, ...] = ()
    """What a retriever would be asked for: the needed pages, not always named well."""
    compaction: bool = False
    reset: bool = False


@dataclass(frozen=True, slots=True)
class Workload:
    """A session of one family."""

    family: str
    seed: int
    turns: tuple[Turn, ...]
    topic: dict[str, str] = field(default_factory=dict)
    """What each page is about, as a retriever would see it."""


def families(seed: int) -> list[Workload]:
    """One session of each family."""
    return [_build(name, rule, seed) for name, rule in FAMILIES.items()]


@dataclass(slots=True)
class _Maker:
    rnd: random.Random
    count: int = 0
    topic: dict[str, str] = field(default_factory=dict)

    def page(self, kind: PageType, low: int = 30, high: int = 110) -> Item:
        self.count += 1
        page_id, full = f"{kind.value[:4]}-{self.count:03d}", self.rnd.randint(low, high)
        structured = 10 if RESIDENCY[kind].floor > 1 else _POINTER + max(full // 6, 3)
        costs = (0, _POINTER, structured, max(_POINTER + full // 3, structured), full)
        recompute = {PageType.EVIDENCE: 1.0, PageType.CONVERSATION: 0.4}.get(kind, 0.2)
        pin = RESIDENCY[kind].pin
        worth = (
            PIN_WEIGHT[pin]
            + TYPE_WEIGHT.get(kind, 0.0)
            + SCOPE_WEIGHT
            + RECOMPUTE_WEIGHT * recompute
            + self.rnd.random()
        )
        self.topic[page_id] = f"topic-{self.rnd.randrange(8)}"
        return Item(page_id, pin, kind is PageType.BOOTSTRAP, RESIDENCY[kind].path, costs, worth, recompute)


@dataclass(frozen=True, slots=True)
class _Rule:
    """How a family behaves: chances per turn, and how many pages of results are alive at once."""

    arrive: float
    need: int
    repeat: float
    alive: int
    compaction: int = 0
    reset: int = 0
    plan: float = 0.0


FAMILIES = {
    "evidence-heavy": _Rule(arrive=1.0, need=2, repeat=0.3, alive=10, compaction=9),
    "plan-driven": _Rule(arrive=0.5, need=1, repeat=0.1, alive=8, compaction=12, plan=1.0),
    "multi-session": _Rule(arrive=0.6, need=2, repeat=0.2, alive=10, reset=9),
    "churn": _Rule(arrive=1.0, need=1, repeat=0.4, alive=6, compaction=6),
}


ADVERSARIES = {
    "storm": _Rule(arrive=1.0, need=1, repeat=1.0, alive=2, compaction=3, plan=0.5),
    "cascading-resets": _Rule(arrive=0.6, need=2, repeat=0.5, alive=10, compaction=2, reset=1),
}
"""Sessions that are out to break a policy: all is new and nothing stays; the context is thrown away every turn."""
STARVATION = (10, 25, 40, 60, 90)
"""Budgets that the floors outgrow sooner or later."""


def adversaries(seed: int) -> list[Workload]:
    """One session of each adversary."""
    return [_build(name, rule, seed) for name, rule in ADVERSARIES.items()]


def _build(name: str, rule: _Rule, seed: int) -> Workload:
    rnd = random.Random(f"{name}-{seed}")
    maker = _Maker(rnd)
    standing = [maker.page(PageType.BOOTSTRAP), maker.page(PageType.CONSTRAINT), maker.page(PageType.PLAN)]
    alive: list[str] = []
    turns: list[Turn] = []
    for number in range(_TURNS):
        arrivals = list(standing) if number == 0 else []
        departures: list[str] = []
        needs = rnd.sample(alive, min(rule.need, len(alive)))
        calls = [rnd.choice(alive)] if alive and rnd.random() < rule.repeat else []
        if rnd.random() < rule.plan:
            needs.append(standing[2].id)
        if rnd.random() < rule.arrive:
            kind = PageType.EVIDENCE if rnd.random() < 0.8 else PageType.CONVERSATION
            page = maker.page(kind)
            arrivals.append(page)
            alive.append(page.id)
        while len(alive) > rule.alive:
            # What is done with leaves by itself, not what is needed in this turn.
            idle = next(page_id for page_id in alive if page_id not in needs and page_id not in calls)
            alive.remove(idle)
            departures.append(idle)
        wanted = [*needs, *calls]
        topics = [maker.topic[page_id] if rnd.random() < 0.8 else "topic-other" for page_id in wanted]
        turns.append(
            Turn(
                tuple(arrivals),
                tuple(departures),
                tuple(needs),
                tuple(calls),
                tuple(topics),
                compaction=bool(rule.compaction) and number % rule.compaction == rule.compaction - 1,
                reset=bool(rule.reset) and number % rule.reset == rule.reset - 1,
            )
        )
    return Workload(name, seed, tuple(turns), maker.topic)


def tasks(count: int) -> list[Workload]:
    """Tasks: sessions of all families in turn. One succeeds when it comes through without a single lost need.

    That is: every page that the agent looks for is in its context at pointer or better (a pointer is resolved in the
    next turn), no call is made twice for want of its result, and the rules are in every context at their floor.
    """
    made: list[Workload] = []
    seed = 1000
    while len(made) < count:
        made += families(seed)
        seed += 1
    return made[:count]
