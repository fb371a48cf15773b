"""Long-term and short-term memory in one store, and what is fetched before it is asked for.

What was learned (memories, skills, preferences, summaries) is long-term and stays in the index. The single steps of
sessions are short-term: they leave it after some time. A task is primed from the words of the long term, and refined
among the vectors of the short term.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import zip_longest

from instar.memstore.pages import Page
from instar.memstore.recall.answers import Answer, Filters, Hit, Status
from instar.memstore.recall.documents import spoken
from instar.memstore.recall.feed import DETAILS
from instar.memstore.recall.recall import Recall
from instar.memstore.recall.words import query_terms
from instar.memstore.scopes import Principal

LONG_TERM = ("memory", "profile", "summary", "publication", "proposal")
"""Kinds that outlast the sessions they came from."""
_KEYWORDS, _FROM_EACH = 8, 3


@dataclass(frozen=True, slots=True)
class Primed:
    """What a task begins with."""

    @property
    def answer(self) -> Answer:
        """The same as an answer: what was learned comes first."""
        rules = (f"what was learned adds: {', '.join(self.keywords)}",) if self.keywords else ()
        return Answer(self.status, (*self.long_term, *self.short_term), self.reasons, rules=rules)

    long_term: tuple[Hit, ...]
    short_term: tuple[Hit, ...]
    keywords: tuple[str, ...]
    """Words that the long term added to the task."""
    status: Status
    reasons: tuple[str, ...] = ()


def prime(recall: Recall, by: Principal, task: str, *, scope: str, limit: int = 5) -> Primed:
    """What was learned about a task, and the recent steps that this points to."""
    learned: list[Hit] = []
    status = Status.NO_MATCH
    reasons: dict[str, None] = {}
    for kind in LONG_TERM:
        answer = recall.search(by, task, scope=scope, filters=Filters(kind=kind), limit=_FROM_EACH, literal=True)
        status = _worse(status, answer.status)
        reasons |= dict.fromkeys(answer.reasons)
        learned += answer.hits
    learned.sort(key=lambda hit: (-hit.score, -hit.page.seq))
    keywords = _keywords(task, (hit.page for hit in learned[:limit]))
    answer = recall.search(by, " ".join([task, *keywords]), scope=scope, limit=3 * limit, literal=True)
    known = {hit.page.id for hit in learned}
    recent = [hit for hit in answer.hits if hit.page.id not in known and hit.page.kind in DETAILS]
    reasons |= dict.fromkeys(answer.reasons)
    return Primed(
        tuple(learned[:limit]), tuple(recent[:limit]), keywords, _worse(status, answer.status), tuple(reasons)
    )


def _keywords(task: str, pages: Iterable[Page]) -> tuple[str, ...]:
    """Words that several learned pages share and the task lacks."""
    own = set(query_terms(task))
    counted = Counter(term for page in pages for term in query_terms(spoken(page)))
    shared = [term for term, count in counted.most_common() if count > 1 and term not in own]
    return tuple(shared[:_KEYWORDS])


_WORST = (Status.NO_MATCH, Status.HIT, Status.DEGRADED, Status.BACKEND_ERROR, Status.DENIED)


def _worse(one: Status, other: Status) -> Status:
    return max(one, other, key=_WORST.index)


@dataclass(frozen=True, slots=True)
class Step:
    """A step of an explicit plan: what it will need, and what must be done before it."""

    name: str
    needs: str
    after: tuple[str, ...] = ()


def next_steps(plan: Sequence[Step], done: Iterable[str]) -> list[Step]:
    """The steps whose turn it is, in the order of the plan."""
    finished = set(done)
    return [step for step in plan if step.name not in finished and finished.issuperset(step.after)]


@dataclass(slots=True)
class _Count:
    fetched: int = 0
    used: int = 0


class Prefetch:
    """Fetches pages before they are asked for, and stops where that does not pay.

    Each way of guessing is counted for itself: it is off while fewer than `share` of what it fetched was used, after
    `trial` pages; then every `retry`-th turn tries it again.
    """

    def __init__(
        self, recall: Recall, by: Principal, scope: str, *, share: float = 0.15, trial: int = 100, retry: int = 20
    ) -> None:
        self._recall, self._by, self._scope = recall, by, scope
        self._share, self._trial, self._retry = share, trial, retry
        self._counts: dict[str, _Count] = {}
        self._waiting: dict[str, set[str]] = {}
        self._turns = 0

    def around(self, page: Page, *, limit: int = 5) -> list[Page]:
        """Pages that often go with a page: its parent and what else hangs there, its tool chain, similar ones, and
        what followed on similar ones. The ways take turns, so that each can show whether it pays."""
        self._turns += 1
        store = self._recall.store
        guesses: dict[str, list[Page]] = {}
        if page.parent and self._pays("parent"):
            parent = store.get_many(self._by, [page.parent])
            siblings = store.find(self._by, scope=self._scope, parent=page.parent, limit=limit, newest_first=True)
            guesses["parent"] = [*parent.values(), *siblings]
        tools = [tag for tag in page.tags if tag.startswith("tool:")]
        if tools and page.session and self._pays("tool chain"):
            since = page.created_at - timedelta(days=30)
            chain = store.find(self._by, scope=self._scope, tag=tools[0], since=since, limit=limit, newest_first=True)
            guesses["tool chain"] = list(chain)
        similar, followed = self._pays("similar"), self._pays("followed")
        if similar or followed:
            hits = self._recall.search(
                self._by, spoken(page)[:500], scope=self._scope, limit=limit, literal=True
            ).hits
            if similar:
                guesses["similar"] = [hit.page for hit in hits]
            if followed:
                guesses["followed"] = [hit.after for hit in hits if hit.after is not None]
        return self._take(guesses, limit, page)

    def ahead(self, plan: Sequence[Step], done: Iterable[str], *, limit: int = 5) -> list[Page]:
        """Pages for the steps whose turn comes next."""
        self._turns += 1
        if not self._pays("plan"):
            return []
        wanted: list[Page] = []
        for step in next_steps(plan, done):
            answer = self._recall.search(self._by, step.needs, scope=self._scope, limit=limit, literal=True)
            wanted += [hit.page for hit in answer.hits]
        return self._take({"plan": wanted}, limit)

    def warm(self, template: Sequence[str], *, limit: int = 5) -> list[Page]:
        """Pages for what a task of this kind always asks about."""
        wanted: list[Page] = []
        for topic in template:
            answer = self._recall.search(self._by, topic, scope=self._scope, limit=limit, literal=True)
            wanted += [hit.page for hit in answer.hits]
        return self._take({"template": wanted}, len(wanted))

    def used(self, page_ids: Iterable[str]) -> None:
        """Say which pages were asked for after all."""
        for page_id in page_ids:
            for way, waiting in self._waiting.items():
                if page_id in waiting:
                    waiting.discard(page_id)
                    self._counts[way].used += 1

    def counts(self) -> Mapping[str, tuple[int, int]]:
        """For each way of guessing, how many pages it fetched and how many of them were used."""
        return {way: (count.fetched, count.used) for way, count in self._counts.items()}

    def _pays(self, way: str) -> bool:
        count = self._counts.get(way, _Count())
        if count.fetched < self._trial or count.used >= self._share * count.fetched:
            return True
        return self._turns % self._retry == 0

    def _take(self, guesses: Mapping[str, Sequence[Page]], limit: int, origin: Page | None = None) -> list[Page]:
        """At most so many of the guesses, one of each way in turn; only these count as fetched."""
        found: dict[str, Page] = {}
        for turn in zip_longest(*([(way, page) for page in pages] for way, pages in guesses.items())):
            for way, page in filter(None, turn):
                if len(found) < limit and page.id not in found and (origin is None or page.id != origin.id):
                    found[page.id] = page
                    self._counts.setdefault(way, _Count()).fetched += 1
                    self._waiting.setdefault(way, set()).add(page.id)
        return list(found.values())
