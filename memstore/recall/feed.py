"""Brings the index up to date from the outbox of the store, batch by batch. A crash repeats a batch."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from instar.memstore.backend import OutboxRow, Query
from instar.memstore.maintenance import is_erased
from instar.memstore.pages import Page
from instar.memstore.recall.documents import Doc, doc_of, micros, root_of
from instar.memstore.recall.embedders import Embedder
from instar.memstore.recall.errors import EmbedderFailed
from instar.memstore.recall.index import PATIENT, Matrix, TextCache, VectorKeeper, Vectors, WordIndex
from instar.memstore.store import Store

BATCH = 1_000
DETAILS = frozenset({"step", "message", "tool-call"})
"""Kinds of the single steps of a session, which leave the index after some time."""
DETAILS_BEFORE = "details-before"
_DETAILS_LEFT = "details-left"
_FIRST = "first-change"


@dataclass(frozen=True, slots=True)
class Side:
    """Vectors of one embedder, and where they are."""

    embedder: Embedder
    vectors: VectorKeeper
    cache: TextCache
    length: int = 0
    """How many numbers a vector has now; vectors of another length are not taken from the cache. 0: not asked."""

    def measured(self) -> Side:
        """The same, after asking the embedder how long its vectors are, where it could have changed unseen."""
        if self.embedder.cheap:
            return self
        try:
            return replace(self, length=self.embedder(["length"]).shape[1])
        except EmbedderFailed:  # whoever needs a vector is told
            return self

    def embed(self, docs: Sequence[Doc]) -> Matrix:
        """The vectors of documents, computed once for each text where that costs something."""
        if self.embedder.cheap:
            return self.embedder([doc.text for doc in docs])
        known = self.cache.known(self.embedder.name, [doc.digest for doc in docs])
        if self.length:
            known = {digest: vector for digest, vector in known.items() if len(vector) == self.length}
        missing = {doc.digest: doc.text for doc in docs if doc.digest not in known}
        if missing:
            computed = self.embedder(list(missing.values()))
            if len(computed) != len(missing):
                raise EmbedderFailed(self.embedder.name, f"{len(missing)} texts, {len(computed)} vectors")
            self.cache.learn(self.embedder.name, list(missing), computed)
            known |= dict(zip(missing, computed, strict=True))
        return np.stack([known[doc.digest] for doc in docs])


@dataclass(frozen=True, slots=True)
class _Batch:
    since: int
    cut: int
    """Details from before this time were left out."""
    docs: list[Doc]
    gone: list[tuple[int, str]]
    through: int
    erased: bool
    full: bool
    """Whether there may be more behind it."""


class Feed:
    """Reads the changes of a store in their order."""

    def __init__(self, store: Store, words: WordIndex) -> None:
        self._store, self._words = store, words
        self._ahead: _Batch | None = None

    def belongs(self) -> bool:
        """Whether the index was made from this store, as far as the first and the last change tell."""
        settings, through = self._words.settings(), self._words.through()
        with self._store.snapshot() as view:
            first = view.outbox(0, 1)
            last = view.outbox(through - 1, 1) if through else []
        if not through:
            return True
        return bool(first and last) and last[0].seq == through and settings.get(_FIRST) == _mark(first[0])

    def lag(self, cursor: int, *, most: int) -> int:
        """How many changes come after this one; not counted beyond `most`."""
        with self._store.snapshot() as view:
            return len(view.outbox(cursor, most))

    def step(self, sides: Sequence[Side], *, words: bool = True, within: float = PATIENT) -> bool:
        """Bring in one batch of whatever is furthest behind; False when nothing is behind.

        Raises:
            StoreUnavailable: the store cannot be read.
            IndexBusy: others are bringing in something, for more than so many seconds.
            IndexFailed, IndexHeld: a part of the index cannot be written.
            EmbedderFailed: there are no vectors to be had.
        """
        behind = [side.vectors.through() for side in sides]
        through = self._words.through()
        start = min([*behind, *([through] if words else [])])
        batch = self._taken(start)
        if batch is None:
            return False
        # Vectors take as long as all the rest, most of it outside of Python: they are made beside it.
        with (
            self._words.turn(within),
            ThreadPoolExecutor(max(len(sides), 1), thread_name_prefix="instar-vectors") as beside,
        ):
            due = [side for side, at in zip(sides, behind, strict=True) if at == start]
            made = [beside.submit(_apply, side, batch, within) for side in due]
            if words and through == start:
                self._words.apply(batch.docs, [seq for seq, _ in batch.gone], batch.through)
                if batch.erased:
                    self._words.purge()
            if made and batch.full:
                self._ahead = self._read(batch.through)
            for each in made:
                each.result()
        return True

    def _taken(self, since: int) -> _Batch | None:
        """The changes behind this one, read already or only now."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead.since == since and ahead.cut == self._cut():
            return ahead
        return self._read(since)

    def _cut(self) -> int:
        return int(self._words.settings().get(DETAILS_BEFORE, "0"))

    def drop_details(self, sides: Sequence[Side], before: int) -> int:
        """Take details stored before this time, in microseconds, out of the index; returns how many."""
        return sum(
            self._drop_details(sides, root, kind, before) for root in self._words.roots() for kind in sorted(DETAILS)
        )

    def _drop_details(self, sides: Sequence[Side], root: str, kind: str, before: int) -> int:
        """Goes on behind the details that are known to have left."""
        cursor = f"{_DETAILS_LEFT}:{root}:{kind}"
        after = left = int(self._words.settings().get(cursor, "0"))
        dropped, staying = 0, False
        while True:
            with self._store.snapshot() as view:
                pages = view.scan(Query(root, (root,), kind=kind, after=after, limit=BATCH))
            gone = [page.seq for page in pages if retired(page, before)]
            if gone:
                for side in sides:
                    side.vectors.take(root, gone)
                self._words.withdraw(gone)
                dropped += len(gone)
            for page in pages:  # a page that was changed later stays longer than those behind it
                staying = staying or not retired(page, before)
                left = left if staying else page.seq
            if not gone:
                break
            after = pages[-1].seq
        self._words.remember(cursor, str(left))
        return dropped

    def _read(self, since: int) -> _Batch | None:
        with self._store.snapshot() as view:
            rows = view.outbox(since, BATCH)
            if not rows:
                return None
            settings = self._words.settings()
            if _FIRST not in settings:
                self._words.remember(_FIRST, _mark(view.outbox(0, 1)[0]))
            pages = view.heads(list(dict.fromkeys(row.page_id for row in rows)))
        cut = int(settings.get(DETAILS_BEFORE, "0"))
        docs, gone = [], []
        for page in pages.values():
            if page.hidden or retired(page, cut):
                gone.append((page.seq, root_of(page.scope)))
            else:
                docs.append(doc_of(page))
        erased = any(is_erased(page) for page in pages.values())
        return _Batch(since, cut, docs, gone, rows[-1].seq, erased, len(rows) == BATCH)


def _apply(side: Side, batch: _Batch, within: float) -> None:
    spoken = [doc for doc in batch.docs if doc.text.strip()]
    matrix = side.embed(spoken) if spoken else np.empty((0, 0), np.float32)
    by_root: dict[str, list[int]] = {}
    for place, doc in enumerate(spoken):
        if matrix[place].any():
            by_root.setdefault(root_of(doc.scope), []).append(place)
    put = {spoken[place].seq for places in by_root.values() for place in places}
    for root, places in by_root.items():
        seqs = np.array([spoken[place].seq for place in places], np.int64)
        side.vectors.put(root, Vectors(seqs, matrix[places]), within=within)
    leaving: dict[str, list[int]] = {}
    for seq, root in (*batch.gone, *((doc.seq, root_of(doc.scope)) for doc in batch.docs if doc.seq not in put)):
        leaving.setdefault(root, []).append(seq)
    for root, gone in leaving.items():
        side.vectors.take(root, gone, within=within)
    if batch.erased:
        side.cache.forget()
    side.vectors.advance(batch.through)


def retired(page: Page, cut: int) -> bool:
    """Whether a page is a detail that was stored before this time, in microseconds.

    What was read today is found today, however long ago it happened.
    """
    return page.kind in DETAILS and micros(page.updated_at) < cut


def _mark(row: OutboxRow) -> str:
    return f"{row.seq} {row.page_id}"
