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

from instar.memstore.recall.index import Postings, Row, Seqs, Wanted

K1, B = 0.9, 0.4
"""Saturation and length normalisation; these values do well on short passages (Lin et al., Anserini, 2017)."""
CONTEXT = 1.5
"""What the score of a page together with its neighbours counts for, against 1 for its own."""
SHORT = 30
"""Terms. Where pages are shorter on average, as in talk, the more is left to what stands beside them: by so much more
the context counts, up to `MOST`."""
MOST = 3.0
DEEPEST = 2_500
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
    common = _common(postings, wanted, terms, among)
    found = _found(postings, wanted, [term for term in terms if term not in common])
    if not found:
        found = _found(postings, wanted, sorted(common, key=lambda term: common[term])[:FEWEST])
    if not found:
        return Ranked((), (), {})
    weights = {term: _weight(frequency, among) for term, frequency in common.items()}
    weights |= {term: _weight(_frequency(seqs, among), among) for term, seqs in found.items()}
    pool = _pool(postings, wanted, found, weights)
    rows = postings.rows(pool, wanted, list(weights))
    mean = max(length / documents, 1.0)
    held = {row.seq: row for row in rows}
    scores = {row.seq: _score(row.counts, row.length, weights, mean) for row in rows}
    best = sorted(rows, key=lambda row: (-scores[row.seq], -row.seq))[:BESIDE]
    beside = postings.beside(best)
    near = {seq for pair in beside.values() for seq in pair if seq and seq not in held}
    for row in postings.rows(near, wanted, list(weights)) if near else ():
        held[row.seq] = row
        scores[row.seq] = _score(row.counts, row.length, weights, mean)
    scores = _in_context(scores, held, beside, weights, mean)
    order = sorted((seq for seq, score in scores.items() if score > 0), key=lambda seq: (-scores[seq], -seq))[:limit]
    return Ranked(tuple(order), tuple(scores[seq] for seq in order), beside, mean)


def _found(postings: Postings, wanted: Wanted, terms: Sequence[str]) -> dict[str, Seqs]:
    """The newest documents that hold each of these terms; terms that none holds are missing."""
    found = postings.each(wanted, terms, DEEPEST)
    return {term: seqs for term, seqs in zip(terms, found, strict=True) if len(seqs)}


def _common(postings: Postings, wanted: Wanted, terms: Sequence[str], among: int) -> dict[str, float]:
    """About how many documents hold each of those terms that are known to go on beyond `DEEPEST`."""
    if among <= DEEPEST:
        return {}
    shares = postings.shares(wanted.scope, terms)
    return {term: share * among for term, share in shares.items() if share * among > DEEPEST}


def _narrowed(postings: Postings, wanted: Wanted, documents: int) -> int:
    """About how many documents compete."""
    if not wanted.marks:
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


def _score(counts: Mapping[str, int], length: int, weights: Mapping[str, float], mean: float) -> float:
    norm = K1 * (1 - B + B * length / mean)
    return sum(weights[term] * count * (K1 + 1) / (count + norm) for term, count in counts.items())


def _in_context(
    scores: Mapping[int, float],
    rows: Mapping[int, Row],
    beside: Mapping[int, tuple[int, int]],
    weights: Mapping[str, float],
    mean: float,
) -> dict[int, float]:
    """Each score with that of the page read together with its neighbours, as far as these were read."""
    before: dict[int, int] = {}
    after: dict[int, int] = {}
    for seq, (left, right) in beside.items():
        before[seq], after[left], after[seq], before[right] = left, seq, right, seq
    share = CONTEXT * min(max(1.0, SHORT / mean), MOST)
    found = dict(scores)
    for seq in before.keys() | after.keys():
        if seq not in rows:
            continue
        window = [rows[near] for near in (before.get(seq, 0), seq, after.get(seq, 0)) if near in rows]
        counts: dict[str, int] = {}
        for row in window:
            for term, count in row.counts.items():
                counts[term] = counts.get(term, 0) + count
        length = sum(row.length for row in window)
        found[seq] += share * _score(counts, length, weights, mean * len(window))
    return found
