"""Search over the store: narrowed by what is known of a page, ranked by words and by meaning, checked in the store.

The index only proposes. Every page is read from the store before it is shown, and what the grants, the filters or the
time do not allow is left out there, so that a stale, foreign or damaged index cannot leak a page.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import TracebackType
from typing import Protocol, Self

import numpy as np

from instar.memstore.backend import Query, View
from instar.memstore.errors import StoreUnavailable
from instar.memstore.memory import matches
from instar.memstore.pages import Page
from instar.memstore.recall.answers import Answer, Filters, Hit, IndexState, Status
from instar.memstore.recall.documents import marks_wanted, micros, root_of, speaker_of
from instar.memstore.recall.errors import EmbedderFailed, IndexFailed, IndexHeld
from instar.memstore.recall.feed import BATCH, Feed, Side
from instar.memstore.recall.fusion import STATIC_WEIGHT, Fused, fuse
from instar.memstore.recall.index import Matrix, Wanted, WordIndex
from instar.memstore.recall.lexical import Ranked, rank_by_words
from instar.memstore.recall.links import Link, Relation, links_at
from instar.memstore.recall.meaning import Near, rank_by_meaning
from instar.memstore.recall.rules import Rewriter, rewrite
from instar.memstore.recall.words import query_terms
from instar.memstore.scopes import Principal, check_scope
from instar.memstore.store import Store

SAME = 0.95
"""Pages that are at least so similar say the same."""
PATIENCE = 0.25
"""Seconds that a search spends on bringing the index up to date before it answers with what there is."""
_DEPTH = 100
_COUNTED = 10_000
_LONGEST_QUERY = 4_000


class Reranker(Protocol):
    """Scores texts against a query; a cross-encoder, where one is installed."""

    def __call__(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """One score for each text, higher is better."""
        ...


Progress = Callable[[int], None]
"""Called with the number of changes that were brought in so far."""


@dataclass(slots=True)
class _Search:
    """What is known while a search runs."""

    by: Principal
    wanted: Wanted
    query: Query
    filters: Filters
    text: str
    limit: int
    now: datetime
    reasons: list[str]
    failed: int = 0


class Recall:
    """Search over one store. Threads may share it. Made by `open_recall`."""

    def __init__(
        self,
        store: Store,
        words: WordIndex,
        serving: Side | None,
        *,
        clock: Callable[[], datetime],
        building: Side | None = None,
        reranker: Reranker | None = None,
        rewriter: Rewriter = rewrite,
        patience: float = PATIENCE,
        notices: Sequence[str] = (),
    ) -> None:
        self.store, self.words = store, words
        self._serving, self._building = serving, building
        self._clock, self._reranker, self._rewriter, self._patience = clock, reranker, rewriter, patience
        self._feed = Feed(store, words)
        self._notices = tuple(notices)
        if not self._feed.belongs():
            self.words.clear()
            for side in self._sides():
                side.vectors.clear()

    # Searching

    def search(
        self,
        by: Principal,
        query: str,
        *,
        scope: str,
        filters: Filters = Filters(),  # noqa: B008  (frozen)
        limit: int = 10,
        literal: bool = False,
    ) -> Answer:
        """The pages in and below a scope that are about the query, best first; never one that is hidden or expired.

        `literal` leaves the query as it is, without reading filters out of it. Nothing that goes wrong in an index or
        in the store is raised: the answer says `degraded` or `backend-error`, and why.

        Raises:
            InvalidRequest: the scope is malformed.
        """
        check_scope(scope)
        if not by.may(scope):
            return Answer(Status.DENIED, reasons=(f"{by.name!r} holds no grant on {scope!r}",), text=query)
        now = self._clock()
        asked = query[:_LONGEST_QUERY].encode(errors="replace").decode()
        read = None if literal else self._rewriter(asked, filters, now)
        text, narrowed, rules = (read.text, read.filters, read.rules) if read else (asked, filters, ())
        try:
            answer = self._answer(by, text, scope=scope, filters=narrowed, limit=limit, now=now)
            if read and not answer.hits and answer.status is Status.NO_MATCH and narrowed != filters:
                again = self._answer(by, text, scope=scope, filters=filters, limit=limit, now=now)
                if again.hits:
                    rules = (*rules, "nothing was found so narrowed, this is from all there is")
                    answer, narrowed = again, filters
        except StoreUnavailable as error:
            return Answer(Status.BACKEND_ERROR, reasons=(str(error),), text=text, filters=narrowed, rules=rules)
        return replace(answer, text=text, filters=narrowed, rules=rules)

    def _answer(self, by: Principal, text: str, *, scope: str, filters: Filters, limit: int, now: datetime) -> Answer:
        search = _Search(
            by=by,
            wanted=_wanted(scope, filters, now),
            query=_query(by, scope, filters, now),
            filters=filters,
            text=text,
            limit=limit,
            now=now,
            reasons=[*self._notices, *self._freshen()],
        )
        ranked = self._by_words(search)
        near = self._by_meaning(search)
        if search.failed == (1 if self._serving is None else 2):
            return Answer(Status.BACKEND_ERROR, reasons=tuple(search.reasons))
        static = self._serving is not None and self._serving.embedder.cheap
        fused = fuse(ranked.seqs, near.seqs, STATIC_WEIGHT if static else 1.0, sure=near.sure)
        with self.store.snapshot() as view:
            hits = self._hits(view, search, fused, ranked)
        status = Status.DEGRADED if search.reasons else Status.HIT if hits else Status.NO_MATCH
        return Answer(status, tuple(hits), tuple(search.reasons))

    def _by_words(self, search: _Search) -> Ranked:
        try:
            return rank_by_words(self.words, search.wanted, query_terms(search.text), _DEPTH)
        except IndexFailed as error:
            search.reasons.append(str(error))
            search.failed += 1
            return Ranked((), (), {})

    def _by_meaning(self, search: _Search) -> Near:
        if self._serving is None:
            return Near()
        try:
            vector = self._serving.embedder([search.text])[0]
            return rank_by_meaning(self.words, self._serving.vectors, search.wanted, vector, _DEPTH)
        except (IndexFailed, IndexHeld, EmbedderFailed) as error:
            search.reasons.append(f"without vectors: {error}")
            search.failed += 1
            return Near()

    def _hits(self, view: View, search: _Search, fused: Sequence[Fused], ranked: Ranked) -> list[Hit]:
        """The best that the store allows, each once; what says the same as a better one stands beside it."""
        kept: list[tuple[Fused, Page]] = []
        twins: dict[int, list[str]] = {}
        size = max(2 * search.limit, 20)
        shown = _Matrix(self._serving, root_of(search.wanted.scope))
        for at in range(0, len(fused), size):
            for one, page in self._admitted(view, search, fused[at : at + size]):
                shown.load([one.seq])
                twin = shown.twin(one.seq, page, kept)
                if twin is not None:
                    twins.setdefault(twin, []).append(page.id)
                elif len(kept) < search.limit:
                    kept.append((one, page))
            if len(kept) >= search.limit:
                break
        return self._told(view, search, self._reranked(search, kept), twins, ranked)

    def _admitted(self, view: View, search: _Search, fused: Sequence[Fused]) -> list[tuple[Fused, Page]]:
        names = self.words.names([one.seq for one in fused])
        pages = view.heads(list(names.values())) if names else {}
        found = []
        for one in fused:
            page = pages.get(names.get(one.seq, ""))
            if page is not None and page.seq == one.seq and _allowed(page, search.query, search.filters):
                found.append((one, page))
        return found

    def _reranked(self, search: _Search, kept: list[tuple[Fused, Page]]) -> list[tuple[Fused, Page]]:
        if self._reranker is None or len(kept) < 2:
            return kept
        scores = self._reranker(search.text, [page.forms.compressed for _, page in kept])
        order = sorted(range(len(kept)), key=lambda place: (-scores[place], place))
        return [kept[place] for place in order]

    def _told(
        self,
        view: View,
        search: _Search,
        kept: Sequence[tuple[Fused, Page]],
        twins: dict[int, list[str]],
        ranked: Ranked,
    ) -> list[Hit]:
        """With support, age, contradictions and neighbours."""
        links = links_at(self.words, view, search.by.grants, [page for _, page in kept], micros(search.now))
        beside = self._neighbours(view, search, [one.seq for one, _ in kept], ranked)
        hits = []
        for one, page in kept:
            against = [link for link in links.get(page.id, ()) if link.relation is Relation.CONTRADICTS]
            same = [link for link in links.get(page.id, ()) if link.relation is Relation.SAME_AS]
            others = tuple(dict.fromkeys(_other(link, page.id) for link in against))
            duplicates = tuple(dict.fromkeys([*twins.get(one.seq, ()), *(_other(link, page.id) for link in same)]))
            before, after = beside.get(one.seq, (None, None))
            hits.append(
                Hit(
                    page=page,
                    score=one.score,
                    lexical_rank=one.lexical,
                    vector_rank=one.vector,
                    support=len(page.provenance.references) + len(duplicates),
                    age=search.now - page.created_at,
                    contradictions=others,
                    superseded_by=next((link.source for link in reversed(against) if link.target == page.id), None),
                    duplicates=duplicates,
                    before=before,
                    after=after,
                )
            )
        return _newer_first(hits)

    def _neighbours(
        self, view: View, search: _Search, seqs: Sequence[int], ranked: Ranked
    ) -> dict[int, tuple[Page | None, Page | None]]:
        pairs = {seq: ranked.beside[seq] for seq in seqs if seq in ranked.beside}
        near = {seq for pair in pairs.values() for seq in pair if seq}
        if not near:
            return {}
        names = self.words.names(near)
        pages = view.heads(list(names.values()))
        anything = replace(search.query, kind=None, type=None, state=None, parent=None, session=None, tag=None)
        free = replace(anything, since=None, until=None)
        allowed = {seq: pages[name] for seq, name in names.items() if name in pages and matches(pages[name], free)}
        return {seq: (allowed.get(before), allowed.get(after)) for seq, (before, after) in pairs.items()}

    # Keeping it up to date

    def catch_up(self, *, seconds: float | None = None, progress: Progress | None = None) -> int:
        """Bring the index up to date; returns how many batches that took.

        Raises:
            StoreUnavailable: the store cannot be read.
            IndexHeld: the words are up to date, and another process owns the vectors.
            IndexFailed: a part of the index cannot be written.
            EmbedderFailed: there are no vectors to be had.
        """
        end = None if seconds is None else time.monotonic() + seconds
        done = 0
        sides = self._sides()
        if end is None:
            for side in sides:
                side.vectors.repair()
        try:
            while self._feed.step(sides):
                done += 1
                if progress is not None:
                    progress(done * BATCH)
                if end is not None and time.monotonic() > end:
                    return done
        except (IndexHeld, EmbedderFailed):
            while (end is None or time.monotonic() <= end) and self._feed.step([]):
                done += 1
            raise
        self._switch()
        return done

    def reindex(self, progress: Progress | None = None) -> IndexState:
        """Forget the whole index and build it anew from the store. Searches meanwhile say `degraded`.

        Raises:
            StoreUnavailable, IndexHeld, IndexFailed, EmbedderFailed: as `catch_up`; try again to continue.
        """
        for side in self._sides():
            side.vectors.clear()
        kept = {name: value for name, value in self.words.settings().items() if name in _LASTING}
        self.words.clear()
        for name, value in kept.items():
            self.words.remember(name, value)
        self.catch_up(progress=progress)
        return self.state()

    def state(self) -> IndexState:
        """How the index stands against the store.

        Raises:
            StoreUnavailable: the store cannot be read.
            IndexFailed: the index of words cannot be read.
        """
        reasons = list(self._notices)
        lag = self._feed.lag(self.words.through(), most=_COUNTED)
        pages = sum(self.words.totals(root)[0] for root in self.words.roots())
        vectors = vector_lag = 0
        if self._serving is not None:
            vector_lag = self._feed.lag(self._serving.vectors.through(), most=_COUNTED)
            try:
                vectors = self._serving.vectors.count()
            except (IndexFailed, IndexHeld) as error:
                reasons.append(str(error))
        if lag or vector_lag:
            reasons.append(f"{max(lag, vector_lag)} changes are not in the index yet")
        name = self._serving.embedder.name if self._serving else ""
        return IndexState(pages, lag, vectors, vector_lag, name, tuple(reasons))

    def _freshen(self) -> list[str]:
        """Catch up for a moment; what is still missing then, in words."""
        found = []
        try:
            self.catch_up(seconds=self._patience)
        except (IndexHeld, IndexFailed, EmbedderFailed) as error:
            found.append(str(error))
        try:
            if lag := self._feed.lag(self.words.through(), most=_COUNTED):
                found.append(f"{_about(lag)} are not in the index yet; `instar reindex` or a little patience helps")
            elif self._serving and (lag := self._feed.lag(self._serving.vectors.through(), most=_COUNTED)):
                found.append(f"{_about(lag)} have no vectors yet; `instar reindex` or a little patience helps")
        except IndexFailed as error:
            found.append(str(error))
        return list(dict.fromkeys(found))

    def _sides(self) -> list[Side]:
        return [side for side in (self._serving, self._building) if side is not None]

    def _switch(self) -> None:
        """The vectors of a new embedder are complete: let them serve, and drop those of the old one."""
        if self._building is not None:
            if self._serving is not None:
                self._serving.vectors.clear()
                self._serving.vectors.close()
            self._serving, self._building = self._building, None
            self._notices = ()
        if self._serving is not None and self.words.settings().get(EMBEDDER) != self._serving.embedder.name:
            self.words.remember(EMBEDDER, self._serving.embedder.name)

    # The end

    def close(self) -> None:
        """Give back files, connections and locks. The store stays open. Closing twice is fine."""
        for side in self._sides():
            side.vectors.close()
        self.words.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


EMBEDDER = "embedder"
"""Under this name the index remembers whose vectors are complete."""
_LASTING = frozenset({"details-before"})


class _Matrix:
    """The vectors of what is shown, to see what says the same."""

    def __init__(self, side: Side | None, root: str) -> None:
        self._side, self._root = side, root
        self._rows: dict[int, Matrix] = {}

    def load(self, seqs: Collection[int]) -> None:
        if self._side is None:
            return
        try:
            found = self._side.vectors.of(self._root, seqs)
        except (IndexFailed, IndexHeld):
            self._side = None
            return
        self._rows |= {int(seq): row for seq, row in zip(found.seqs, found.matrix, strict=True)}

    def twin(self, seq: int, page: Page, kept: Sequence[tuple[Fused, Page]]) -> int | None:
        """Which of the pages kept says the same, if any."""
        row = self._rows.get(seq)
        for one, other in kept:
            if page.digest == other.digest:
                return one.seq
            if row is None or one.seq not in self._rows or page.kind != other.kind:
                continue
            if float(np.dot(row, self._rows[one.seq])) >= SAME and _same_figures(page, other):
                return one.seq
        return None


def _same_figures(page: Page, other: Page) -> bool:
    """Static vectors hardly see a number, and two pages that differ in one do not say the same."""
    return _figures(page) == _figures(other)


def _figures(page: Page) -> frozenset[str]:
    return frozenset(term for term in query_terms(page.full[:_LONGEST_QUERY]) if any(map(str.isdigit, term)))


def _wanted(scope: str, filters: Filters, now: datetime) -> Wanted:
    return Wanted(
        scope=scope,
        marks=marks_wanted(scope, filters),
        since=None if filters.since is None else micros(filters.since),
        until=None if filters.until is None else micros(filters.until),
        now=micros(now),
    )


def _query(by: Principal, scope: str, filters: Filters, now: datetime) -> Query:
    return Query(
        scope=scope,
        grants=by.grants,
        kind=filters.kind,
        type=filters.type,
        state=filters.state,
        parent=filters.parent,
        session=filters.session,
        since=filters.since,
        until=filters.until,
        alive_at=now,
    )


def _allowed(page: Page, query: Query, filters: Filters) -> bool:
    return (
        matches(page, query)
        and set(filters.all_tags).issubset(page.tags)
        and filters.speaker in (None, speaker_of(page))
    )


def _other(link: Link, page_id: str) -> str:
    return link.target if link.source == page_id else link.source


def _newer_first(hits: list[Hit]) -> list[Hit]:
    """What newer evidence contradicts stands behind that evidence, where both are in the answer."""
    places = {hit.page.id: place for place, hit in enumerate(hits)}
    order = sorted(
        hits,
        key=lambda hit: (
            max(places[hit.page.id], places.get(hit.superseded_by or "", -1)),
            hit.superseded_by in places,
        ),
    )
    return list(order)


def _about(lag: int) -> str:
    return f"{lag} or more changes" if lag == _COUNTED else f"{lag} changes" if lag > 1 else "1 change"
