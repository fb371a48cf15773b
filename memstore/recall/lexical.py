"""Ranking by words: Okapi BM25 (Robertson and Zaragoza, 2009) over a pool that is found by the rarest terms.

A term that most documents hold says little and has the longest postings. So the postings are read from the newest on
and no further than `DEEPEST`; a term that goes on beyond that finds candidates only when nothing rarer does, and
still counts for what the rarer ones found. Where the index knows how common a term is, such a term is not read at
all. What stands beside a good match in its session is evidence too: a fact is often given in one turn and named in
the one before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from instar.memstore.recall.index import Postings, Row, Seqs, Wanted

Scores = NDArray[np.float64]

K1, B = 0.9, 0.4
"""Saturation and length normalisation; these values do well on short passages (Lin et al., Anserini, 2017)."""
CONTEXT = 1.5
"""What the score of a page together with its neighbours counts for, against 1 for its own."""
SHORT = 30
"""Terms. Where pages are shorter on average, as in talk, the more is left to what stands beside them: by so much more
the context counts, up to `MOST`."""
MOST = 3.0
DEEPEST = 2_500
FREQUENT = 500
"""Beyond so many documents a term is frequent, where the index knows it."""
FEWEST = 2
"""So many of the terms are read where all of them are common."""
POOL = 250
BESIDE = 60
"""For so many of the best, the pages beside them join the pool."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """Documents, best first, with their scores; and the pages beside the best, as context."""

    seqs: tuple[int, ...]
    scores: tuple[float, ...]
    beside: Mapping[int, tuple[int, int]]
    mean: float = 0.0
    """Terms of a page on average, where there were any to rank among."""


def rank_by_words(postings: Postings, wanted: Wanted, terms: Sequence[str], limit: int) -> Ranked:
    """The best documents for these terms. Same index, same terms: the same answer."""
    documents, length = postings.totals(wanted.scope)
    if not terms or not documents:
        return Ranked((), (), {})
    among = _narrowed(postings, wanted, documents)
    known = _known(postings, wanted, terms, among)
    common = [term for term in terms if known.get(term, 0) > DEEPEST]
    found, partly = _found(postings, wanted, [term for term in terms if term not in common], known)
    if not found:
        found = _read(postings, wanted, sorted(common, key=lambda term: known[term])[:FEWEST])
    if not found:
        return Ranked((), (), {})
    weights = {term: _weight(known[term], among) for term in (*common, *partly)}
    weights |= {term: _weight(_frequency(seqs, among), among) for term, seqs in found.items() if term not in weights}
    pool = _pool(postings, wanted, found, weights)
    mean = max(length / documents, 1.0)
    rows = postings.rows(pool, wanted, list(weights))
    table = _table(rows, weights, mean)
    beside = postings.beside([rows[place] for place in _best(table.seqs, table.scores(), BESIDE)])
    near = {seq for pair in beside.values() for seq in pair if seq}.difference(row.seq for row in rows)
    if near:
        table = _table([*rows, *postings.rows(near, wanted, list(weights))], weights, mean)
    scores = table.scores() + table.in_context(beside)
    order = [place for place in _best(table.seqs, scores, limit) if scores[place] > 0]
    return Ranked(tuple(table.seqs[order].tolist()), tuple(scores[order].tolist()), beside, mean)


def _found(
    postings: Postings, wanted: Wanted, terms: Sequence[str], known: Mapping[str, float]
) -> tuple[Mapping[str, Seqs], Sequence[str]]:
    """The newest documents that hold each of these terms, as far as they can come into the pool, and of which terms
    that is only a part.

    What holds nothing but one frequent term stands behind all that hold a rarer one, or two: where these fill the
    pool, it is not read.
    """
    rare = [term for term in terms if term not in known]
    if not rare or not known:
        return _read(postings, wanted, terms), []
    found = _read(postings, wanted, rare)
    frequent = [term for term in terms if term in known]
    several = found | _read(postings, wanted, frequent, beside=terms)
    if several and len(np.unique(np.concatenate(list(several.values())))) >= POOL:
        return several, frequent
    return found | _read(postings, wanted, frequent), []


def _read(postings: Postings, wanted: Wanted, terms: Sequence[str], beside: Sequence[str] = ()) -> dict[str, Seqs]:
    """The newest documents that hold each of these terms; terms that none holds are missing."""
    found = postings.each(wanted, terms, DEEPEST, beside=beside)
    return {term: seqs for term, seqs in zip(terms, found, strict=True) if len(seqs)}


def _known(postings: Postings, wanted: Wanted, terms: Sequence[str], among: int) -> dict[str, float]:
    """About how many documents hold each of those terms that are known to be frequent."""
    if among <= DEEPEST:
        return {}
    shares = postings.shares(wanted.scope, terms)
    return {term: share * among for term, share in shares.items() if share * among > FREQUENT}


def _narrowed(postings: Postings, wanted: Wanted, documents: int) -> int:
    """About how many documents compete."""
    if not (wanted.marks or wanted.since is not None or wanted.until is not None):
        return documents
    inside = len(postings.holding(wanted, [], DEEPEST))
    return documents if inside == DEEPEST else max(inside, 1)


def _frequency(seqs: Seqs, documents: int) -> float:
    """How many documents hold a term; where its postings were not read to the end, as the part read suggests."""
    if len(seqs) < DEEPEST:
        return len(seqs)
    newest, oldest = int(seqs[0]), int(seqs[-1])
    share = (newest - oldest + 1) / max(newest, 1)
    return min(len(seqs) / max(share, 1e-9), documents * 0.9)


def _weight(frequency: float, documents: int) -> float:
    """The inverse document frequency, never negative."""
    documents = max(documents, int(frequency))
    return log(1 + (documents - frequency + 0.5) / (frequency + 0.5))


def _pool(postings: Postings, wanted: Wanted, found: Mapping[str, Seqs], weights: Mapping[str, float]) -> list[int]:
    """The documents that are worth ranking exactly: those with the highest sum of weights, newer ones first."""
    rare = [term for term, seqs in found.items() if len(seqs) < DEEPEST]
    used = rare or list(found)
    joined = np.concatenate([found[term] for term in used])
    held = np.concatenate([np.full(len(found[term]), weights[term]) for term in used])
    if not rare and len(used) > 1:
        both = postings.holding(wanted, list(weights), POOL)
        joined = np.concatenate([joined, both])
        held = np.concatenate([held, np.full(len(both), sum(weights.values()))])
    seqs, place = np.unique(joined, return_inverse=True)
    sums = np.bincount(place, weights=held)
    order = np.lexsort((-seqs, -sums))[:POOL]
    return [int(seq) for seq in seqs[order]]


def _best(seqs: Seqs, scores: Scores, limit: int) -> list[int]:
    """The places of the highest scores, of equal ones the newer first."""
    found: list[int] = np.lexsort((-seqs, -scores))[:limit].tolist()
    return found


@dataclass(frozen=True, slots=True)
class _Table:
    """Rows, with how often each of them holds each term."""

    seqs: Seqs
    counts: Scores
    lengths: Scores
    weights: Scores
    mean: float

    def scores(self) -> Scores:
        """BM25 of each by itself."""
        return self._scores(self.counts, self.lengths / self.mean)

    def in_context(self, beside: Mapping[int, tuple[int, int]]) -> Scores:
        """What is added for a page read together with its neighbours, as far as these are among the rows."""
        places = {seq: place for place, seq in enumerate(self.seqs.tolist())}
        nowhere = len(places)
        before, after, looked_at = (np.full(nowhere + 1, given) for given in (nowhere, nowhere, 0))
        for seq, (left, right) in beside.items():
            here, first, last = (places.get(near, nowhere) for near in (seq, left, right))
            before[here], after[first], after[here], before[last] = first, here, last, here
            looked_at[[first, here, last]] = 1
        before, after = before[:nowhere], after[:nowhere]
        counts = np.vstack((self.counts, np.zeros_like(self.counts[:1])))
        lengths = np.append(self.lengths, 0.0)
        pages = 1.0 + (before != nowhere) + (after != nowhere)
        together = self.counts + counts[before] + counts[after]
        scores = self._scores(together, (self.lengths + lengths[before] + lengths[after]) / (self.mean * pages))
        return looked_at[:nowhere] * scores * CONTEXT * min(max(1.0, SHORT / self.mean), MOST)

    def _scores(self, counts: Scores, lengths: Scores) -> Scores:
        norm = K1 * (1 - B + B * lengths)
        found: Scores = (counts * (K1 + 1) / (counts + norm[:, None])) @ self.weights
        return found


def _table(rows: Sequence[Row], weights: Mapping[str, float], mean: float) -> _Table:
    counts = [[row.counts.get(term, 0) for term in weights] for row in rows]
    return _Table(
        np.array([row.seq for row in rows], np.int64),
        np.array(counts, np.float64).reshape(len(rows), len(weights)),
        np.array([row.length for row in rows], np.float64),
        np.array(list(weights.values())),
        mean,
    )
