"""Search over the store: narrowed by what is known of a page, ranked by words and by meaning, checked in the store.

The index only proposes. Every page is read from the store before it is shown, and what the grants, the filters or the
time do not allow is left out there, so that a stale, foreign or damaged index cannot leak a page.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from threading import Lock
from types import TracebackType
from typing import Self

from instar.memstore.errors import StoreUnavailable
from instar.memstore.pages import Page
from instar.memstore.recall.answers import Answer, Filters, Hit, IndexState, Status
from instar.memstore.recall.context import Recalled, recalled
from instar.memstore.recall.documents import marks_wanted, micros, root_of
from instar.memstore.recall.errors import EmbedderFailed, IndexFailed, IndexHeld, RerankerFailed
from instar.memstore.recall.feed import Side
from instar.memstore.recall.fusion import STATIC_WEIGHT, Fused, fuse
from instar.memstore.recall.index import Wanted, WordIndex
from instar.memstore.recall.lexical import SHORT, Ranked, rank_by_words
from instar.memstore.recall.meaning import Near, rank_by_meaning
from instar.memstore.recall.rerank import RERANKED, Reranker, order_of
from instar.memstore.recall.rules import Rewriter, rewrite
from instar.memstore.recall.showing import Kept, Showing, query_of
from instar.memstore.recall.upkeep import Progress, Upkeep
from instar.memstore.recall.verdicts import Remembered, Verdicts
from instar.memstore.recall.words import query_terms
from instar.memstore.scopes import Principal, check_scope
from instar.memstore.store import Store

PATIENCE = 0.25
"""Seconds that a search spends on bringing the index up to date before it answers with what there is."""
_DEPTH = 100
_LONGEST_QUERY = 4_000
_NOTED_AFTER = 100


@dataclass(slots=True)
class _Search:
    """A search under way: what is looked for, and what went wrong so far."""

    text: str
    scope: str
    filters: Filters
    now: datetime
    limit: int
    reasons: list[str] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)

    @property
    def wanted(self) -> Wanted:
        """For the indexes."""
        since, until = self.filters.since, self.filters.until
        return Wanted(
            scope=self.scope,
            marks=marks_wanted(self.scope, self.filters),
            since=None if since is None else micros(since),
            until=None if until is None else micros(until),
            now=micros(self.now),
        )


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
        verdicts: Callable[[], Verdicts] = dict,
    ) -> None:
        self.store = store
        self.upkeep = Upkeep(store, words, serving, building, notices)
        self._words = words
        self._shown: Counter[int] = Counter()
        self._searches = 0
        self._noting = Lock()
        self._verdicts = Remembered(verdicts, clock=time.monotonic)
        self._clock, self._reranker, self._rewriter, self._patience = clock, reranker, rewriter, patience

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
            answer = self._answer(by, _Search(text, scope, narrowed, now, limit))
            if answer.status is Status.NO_MATCH and narrowed != filters:
                wider = self._answer(by, _Search(text, scope, filters, now, limit))
                if wider.hits:
                    rules = (*rules, "nothing was found so narrowed, this is from all there is")
                    answer, narrowed = wider, filters
        except StoreUnavailable as error:
            return Answer(Status.BACKEND_ERROR, reasons=(str(error),), text=text, filters=narrowed, rules=rules)
        return replace(answer, text=text, filters=narrowed, rules=rules)

    def context(self, answer: Answer, budget: int) -> Recalled:
        """The hits of an answer with what stands beside them as one text of at most so many tokens."""
        return recalled(answer, budget)

    def told(self, by: Principal, pages: Sequence[Page], *, scope: str) -> tuple[Hit, ...]:
        """Pages that were found otherwise as hits, with support, age and what contradicts them, as far as they may be
        shown.

        Raises:
            StoreUnavailable, IndexFailed: it cannot be looked up.
        """
        now = self._clock()
        query = query_of(scope, by.grants, Filters(), now)
        with self.store.snapshot() as view:
            showing = Showing(self._words, view, query, Filters(), now, {})
            kept = showing.admitted([Fused(page.seq, 0.0, None, None) for page in pages])
            return tuple(showing.told(kept, {}, {}))

    def _answer(self, by: Principal, search: _Search) -> Answer:
        search.reasons += self.upkeep.freshen(self._patience)
        serving = self.upkeep.serving
        # Most of the time of both is spent in a database, or in a graph, and neither needs the other.
        with ThreadPoolExecutor(1, thread_name_prefix="instar-meaning") as beside:
            meant = beside.submit(self._by_meaning, search, serving)
            ranked = self._by_words(search)
            near = meant.result()
        if len(search.failed) == (1 if serving is None else 2):
            return Answer(Status.BACKEND_ERROR, reasons=tuple(dict.fromkeys(search.reasons)))
        weight = STATIC_WEIGHT if serving is not None and serving.embedder.cheap else 1.0
        if ranked.mean:  # the vector of a few words says little, and nothing of what stands beside them
            weight *= min(1.0, ranked.mean / SHORT)
        fused = fuse(ranked.seqs, near.seqs, weight, sure=near.sure)
        query = query_of(search.scope, by.grants, search.filters, search.now)
        said = self._verdicts()
        try:
            with self.store.snapshot() as view:
                showing = Showing(self._words, view, query, search.filters, search.now, said)
                wide = search.limit if self._reranker is None else max(search.limit, RERANKED)
                kept, twins = showing.best(fused, serving, root_of(search.scope), wide)
                kept = self._reranked(search, kept)[: search.limit]
                hits = showing.told(kept, twins, ranked.beside)
        except IndexFailed as error:
            return Answer(Status.BACKEND_ERROR, reasons=(*search.reasons, str(error)))
        self._note([one.seq for one, _ in kept])
        status = Status.DEGRADED if search.reasons else Status.HIT if hits else Status.NO_MATCH
        return Answer(status, tuple(hits), tuple(search.reasons))

    def _reranked(self, search: _Search, kept: Kept) -> Kept:
        """In the reranker's order, as far as there is one and it answers."""
        if self._reranker is None or len(kept) <= 1:
            return kept
        head, rest = kept[:RERANKED], kept[RERANKED:]
        try:
            order = order_of(self._reranker, search.text, [page.forms.compressed for _, page in head])
        except RerankerFailed as error:
            search.reasons.append(str(error))
            return kept
        return [head[place] for place in order] + rest

    def _note(self, seqs: Sequence[int]) -> None:
        """Count what was shown, in memory, and now and then in the index: a search must not wait for a writer."""
        with self._noting:
            self._shown.update(seqs)
            self._searches += 1
            if self._searches % _NOTED_AFTER == 0:
                self._write_down()

    def _write_down(self) -> None:
        shown, self._shown = self._shown, Counter()
        if shown:
            with suppress(IndexFailed):  # a count that is lost harms nobody
                self._words.note_shown(shown)

    def _by_words(self, search: _Search) -> Ranked:
        try:
            return rank_by_words(self._words, search.wanted, query_terms(search.text), _DEPTH)
        except IndexFailed as error:
            search.reasons.append(str(error))
            search.failed.add("words")
            return Ranked((), (), {})

    def _by_meaning(self, search: _Search, serving: Side | None) -> Near:
        if serving is None:
            return Near()
        try:
            vector = serving.embedder([search.text])[0]
            return rank_by_meaning(self._words, serving.vectors, search.wanted, vector, _DEPTH)
        except (IndexFailed, IndexHeld, EmbedderFailed) as error:
            search.reasons.append(f"without vectors: {error}")
            search.failed.add("vectors")
            return Near()

    # Keeping it up to date

    def catch_up(self, *, seconds: float | None = None, progress: Progress | None = None) -> int:
        """Bring the index up to date; see `Upkeep.catch_up`."""
        return self.upkeep.catch_up(seconds=seconds, progress=progress)

    def reindex(self, progress: Progress | None = None) -> IndexState:
        """Build the index anew from the store; see `Upkeep.reindex`."""
        return self.upkeep.reindex(progress)

    def state(self) -> IndexState:
        """How the index stands against the store; see `Upkeep.state`."""
        return self.upkeep.state()

    def close(self) -> None:
        """Give back files, connections and locks. The store stays open. Closing twice is fine."""
        with self._noting:
            self._write_down()
        self.upkeep.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
