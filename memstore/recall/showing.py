"""From a ranking to hits: what the store allows, each once, with what one needs to doubt it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from instar.memstore.backend import Query, View
from instar.memstore.memory import matches
from instar.memstore.pages import Page
from instar.memstore.recall.answers import Filters, Hit
from instar.memstore.recall.diversity import diverse
from instar.memstore.recall.documents import WORDLESS, micros, speaker_of
from instar.memstore.recall.errors import IndexFailed, IndexHeld
from instar.memstore.recall.feed import Side
from instar.memstore.recall.fusion import Fused
from instar.memstore.recall.importance import importance_of
from instar.memstore.recall.index import Matrix, WordIndex
from instar.memstore.recall.links import Link, Relation, links_at
from instar.memstore.recall.verdicts import Verdicts, verdicts_on
from instar.memstore.recall.words import query_terms

SAME = 0.95
"""Pages that are at least so similar say the same."""
IMPORTANCE_WEIGHT = 0.4
"""How much of a score depends on what a page counts for, against what it says."""
_FIGURES_IN = 4_000

Kept = list[tuple[Fused, Page]]


@dataclass(frozen=True, slots=True)
class Showing:
    """One answer in the making. Everything is read from one view of the store."""

    words: WordIndex
    view: View
    query: Query
    """What the pages must be, grants included."""
    filters: Filters
    now: datetime
    verdicts: Verdicts

    def admitted(self, fused: Sequence[Fused]) -> Kept:
        """The pages behind a ranking, as far as they are what was asked for now."""
        names = self.words.names([one.seq for one in fused])
        pages = self.view.heads(list(names.values())) if names else {}
        found = []
        for one in fused:
            page = pages.get(names.get(one.seq, ""))
            if page is not None and page.seq == one.seq and self._allowed(page):
                found.append((one, page))
        return found

    def best(
        self, fused: Sequence[Fused], side: Side | None, root: str, limit: int
    ) -> tuple[Kept, Mapping[int, list[str]]]:
        """The first pages, and beside each those that say the same and were left out."""
        kept: Kept = []
        twins: dict[int, list[str]] = {}
        shown = _Matrix(side, root)
        size = max(2 * limit, 20)
        for at in range(0, len(fused), size):
            admitted, scores = self._weighed(self.admitted(fused[at : at + size]))
            shown.load([one.seq for one, _ in admitted])
            fresh: Kept = []
            worth: list[float] = []
            for (one, page), score in zip(admitted, scores, strict=True):
                twin = shown.twin(one.seq, page, [*kept, *fresh])
                if twin is not None:
                    twins.setdefault(twin, []).append(page.id)
                else:
                    fresh.append((one, page))
                    worth.append(score)
            chosen = diverse(worth, shown.rows([one.seq for one, _ in fresh]), limit - len(kept))
            kept += [fresh[place] for place in chosen]
            if len(kept) >= limit:
                break
        return kept, twins

    def told(
        self, kept: Kept, twins: Mapping[int, Sequence[str]], beside: Mapping[int, tuple[int, int]]
    ) -> list[Hit]:
        """With support, age, contradictions and neighbours."""
        links = links_at(self.words, self.view, self.query.grants, [page for _, page in kept], micros(self.now))
        near = self._neighbours({one.seq: beside[one.seq] for one, _ in kept if one.seq in beside})
        hits = []
        for one, page in kept:
            against = [link for link in links.get(page.id, ()) if link.relation is Relation.CONTRADICTS]
            same = [link for link in links.get(page.id, ()) if link.relation is Relation.SAME_AS]
            duplicates = dict.fromkeys([*twins.get(one.seq, ()), *(_other(link, page.id) for link in same)])
            before, after = near.get(one.seq, (None, None))
            hits.append(
                Hit(
                    page=page,
                    score=one.score,
                    lexical_rank=one.lexical,
                    vector_rank=one.vector,
                    support=len(page.provenance.references) + len(duplicates),
                    age=self.now - page.created_at,
                    contradictions=tuple(dict.fromkeys(_other(link, page.id) for link in against)),
                    superseded_by=next((link.source for link in reversed(against) if link.target == page.id), None),
                    duplicates=tuple(duplicates),
                    before=before,
                    after=after,
                )
            )
        return _newer_first(hits)

    def _neighbours(self, pairs: Mapping[int, tuple[int, int]]) -> Mapping[int, tuple[Page | None, Page | None]]:
        seqs = {seq for pair in pairs.values() for seq in pair if seq}
        names = self.words.names(seqs) if seqs else {}
        pages = self.view.heads(list(names.values())) if names else {}
        # Beside a hit may stand what is of another kind, but nothing out of grant, hidden or expired.
        free = Query(self.query.scope, self.query.grants, alive_at=self.query.alive_at)
        allowed = {seq: pages[name] for seq, name in names.items() if name in pages and matches(pages[name], free)}
        return {seq: (allowed.get(before), allowed.get(after)) for seq, (before, after) in pairs.items()}

    def _weighed(self, admitted: Kept) -> tuple[Kept, list[float]]:
        """In the order of their scores, corrected by what the pages count for, and with these."""
        shown = self.words.shown([one.seq for one, _ in admitted]) if admitted else {}

        def rank(one: Fused, page: Page) -> float:
            said = verdicts_on(page, self.verdicts) if self.verdicts else ()
            counted = importance_of(page, (), now=self.now, accesses=shown.get(one.seq, 0), verdicts=said)
            return one.score * (1 - IMPORTANCE_WEIGHT / 2 + IMPORTANCE_WEIGHT * counted.value)

        ranked = sorted(((rank(*pair), pair) for pair in admitted), key=lambda one: (-one[0], -one[1][0].seq))
        return [pair for _, pair in ranked], [score for score, _ in ranked]

    def _allowed(self, page: Page) -> bool:
        return (
            matches(page, self.query)
            and (page.kind not in WORDLESS or page.kind == self.filters.kind)
            and set(self.filters.all_tags).issubset(page.tags)
            and self.filters.speaker in (None, speaker_of(page))
        )


class _Matrix:
    """The vectors of what is shown, to see what says the same."""

    def __init__(self, side: Side | None, root: str) -> None:
        self._side, self._root = side, root
        self._rows: dict[int, Matrix] = {}

    def load(self, seqs: Collection[int]) -> None:
        if self._side is None or not seqs:
            return
        try:
            found = self._side.vectors.of(self._root, seqs)
        except (IndexFailed, IndexHeld):
            self._side = None  # then only identical texts count as the same
            return
        self._rows |= {int(seq): row for seq, row in zip(found.seqs, found.matrix, strict=True)}

    def rows(self, seqs: Sequence[int]) -> dict[int, Matrix]:
        """The vectors of documents by their place in the list, where they have one."""
        return {place: self._rows[seq] for place, seq in enumerate(seqs) if seq in self._rows}

    def twin(self, seq: int, page: Page, kept: Kept) -> int | None:
        """Which of the pages kept says the same, if any."""
        row = self._rows.get(seq)
        for one, other in kept:
            if page.digest == other.digest:
                return one.seq
            held = self._rows.get(one.seq)
            if row is None or held is None or page.kind != other.kind:
                continue
            if float(np.dot(row, held)) >= SAME and same_figures(page, other):
                return one.seq
        return None


def same_figures(page: Page, other: Page) -> bool:
    """Static vectors hardly see a number, and two pages that differ in one do not say the same."""
    return figures_of(page) == figures_of(other)


def figures_of(page: Page) -> frozenset[str]:
    """The numbers that a page names, and what else has a digit in it."""
    return frozenset(term for term in query_terms(page.full[:_FIGURES_IN]) if any(map(str.isdigit, term)))


def query_of(scope: str, grants: tuple[str, ...], filters: Filters, now: datetime) -> Query:
    """What the store checks of every page."""
    return Query(
        scope=scope,
        grants=grants,
        kind=filters.kind,
        type=filters.type,
        state=filters.state,
        parent=filters.parent,
        session=filters.session,
        since=filters.since,
        until=filters.until,
        alive_at=now,
    )


def _other(link: Link, page_id: str) -> str:
    return link.target if link.source == page_id else link.source


def _newer_first(hits: list[Hit]) -> list[Hit]:
    """What newer evidence contradicts stands behind that evidence, where both are in the answer."""
    places = {hit.page.id: place for place, hit in enumerate(hits)}

    def place(hit: Hit) -> tuple[int, bool]:
        newer = places.get(hit.superseded_by or "", -1)
        return max(places[hit.page.id], newer), newer >= 0

    return sorted(hits, key=place)
