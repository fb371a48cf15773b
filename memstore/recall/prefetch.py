"""Pages that are fetched before they are asked for, by several ways of guessing; each must pay for itself."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import zip_longest

from instar.memstore.pages import Page
from instar.memstore.recall.documents import spoken
from instar.memstore.recall.recall import Recall
from instar.memstore.scopes import Principal

_READ = 500
"""Characters of a page by which similar ones are looked for."""
_MOST_OWN = 20
"""So many of the most similar pages may be of the same session, where only others are wanted."""


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
        self,
        recall: Recall,
        by: Principal,
        scope: str,
        *,
        share: float = 0.15,
        trial: int = 100,
        retry: int = 20,
        counts: Mapping[str, tuple[int, int]] | None = None,
        turns: int = 0,
    ) -> None:
        """`counts` and `turns` are what earlier sessions counted."""
        self._recall, self._by, self._scope = recall, by, scope
        self._share, self._trial, self._retry = share, trial, retry
        self._counts = {way: _Count(fetched, used) for way, (fetched, used) in (counts or {}).items()}
        self._waiting: dict[str, set[str]] = {}
        self.turns = turns

    def around(self, page: Page, *, limit: int = 5, held: Container[str] = (), elsewhere: bool = False) -> list[Page]:
        """Pages that often go with a page: its parent and what else hangs there, its tool chain, similar ones, and
        what followed on similar ones. The ways take turns, so that each can show whether it pays.

        Pages that are held are left out, and with `elsewhere` those of the same session.
        """
        self.turns += 1
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
            most = limit + _MOST_OWN if elsewhere else limit
            answer = self._recall.search(self._by, spoken(page)[:_READ], scope=self._scope, limit=most, literal=True)
            hits = [hit for hit in answer.hits if not elsewhere or hit.page.session != page.session][:limit]
            if similar:
                guesses["similar"] = [hit.page for hit in hits]
            if followed:
                guesses["followed"] = [hit.after for hit in hits if hit.after is not None]
        if elsewhere:
            guesses = {way: [one for one in found if one.session != page.session] for way, found in guesses.items()}
        return self._take(guesses, limit, held, page)

    def ahead(
        self, plan: Sequence[Step], done: Iterable[str], *, limit: int = 5, held: Container[str] = ()
    ) -> list[Page]:
        """Pages for the steps whose turn comes next."""
        self.turns += 1
        if not self._pays("plan"):
            return []
        wanted: list[Page] = []
        for step in next_steps(plan, done):
            answer = self._recall.search(self._by, step.needs, scope=self._scope, limit=limit, literal=True)
            wanted += [hit.page for hit in answer.hits]
        return self._take({"plan": wanted}, limit, held)

    def warm(self, template: Sequence[str], *, limit: int = 5, held: Container[str] = ()) -> list[Page]:
        """Pages for what a task of this kind always asks about."""
        if not self._pays("template"):
            return []
        wanted: list[Page] = []
        for topic in template:
            answer = self._recall.search(self._by, topic, scope=self._scope, limit=limit, literal=True)
            wanted += [hit.page for hit in answer.hits]
        return self._take({"template": wanted}, len(wanted), held)

    def given(self, way: str, page_ids: Iterable[str]) -> None:
        """Count pages that the caller fetched in a way of its own."""
        for page_id in page_ids:
            self._counts.setdefault(way, _Count()).fetched += 1
            self._waiting.setdefault(way, set()).add(page_id)

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
        return self.turns % self._retry == 0

    def _take(
        self, guesses: Mapping[str, Sequence[Page]], limit: int, held: Container[str], origin: Page | None = None
    ) -> list[Page]:
        """At most so many of the guesses, one of each way in turn; only these count as fetched."""
        found: dict[str, Page] = {}
        for turn in zip_longest(*([(way, page) for page in pages] for way, pages in guesses.items())):
            for way, page in filter(None, turn):
                if len(found) == limit or page.id in found or page.id in held:
                    continue
                if origin is None or page.id != origin.id:
                    found[page.id] = page
                    self.given(way, [page.id])
        return list(found.values())
