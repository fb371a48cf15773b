"""Ranking by meaning: exactly among few, by the graph among many."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

import numpy as np

from instar.memstore.recall.documents import root_of
from instar.memstore.recall.index import Matrix, Postings, Seqs, VectorIndex, Vectors, Wanted

EXACT = 2_500
"""Of what was narrowed, up to so many are compared one by one: that is faster than a filter on a graph, and exact."""
_BALANCE = 650
"""To compare n vectors takes as long as to ask a graph of N for so many that enough of these n are among them where
n² = 650 N; measured with 256 numbers each. Below that they are compared."""
_REACH, _FARTHEST = 300, 5_000
_SPARE = 1.5
NEAR = 0.4
"""Below this cosine two texts have nothing to do with each other, and the nearest of them is no match."""


@dataclass(frozen=True, slots=True)
class Near:
    """Documents by similarity, best first; of the first `sure` the meaning alone makes a match."""

    seqs: tuple[int, ...] = ()
    sure: int = 0


def rank_by_meaning(postings: Postings, vectors: VectorIndex, wanted: Wanted, vector: Matrix, limit: int) -> Near:
    """The documents whose vectors are nearest to this one."""
    if not vector.any():
        return Near()
    root = root_of(wanted.scope)
    narrowed = wanted.marks or wanted.since is not None or wanted.until is not None
    if not narrowed:
        return _near(root, vector, vectors.nearest(root, vector, limit), limit)
    few = max(EXACT, isqrt(_BALANCE * postings.totals(root)[0]))
    inside = postings.holding(wanted, [], few + 1)
    if len(inside) <= few:
        return _near(root, vector, vectors.of(root, inside.tolist()), limit)
    found = _among_many(postings, vectors, wanted, vector, limit)
    if len(found) < limit:  # what is alike lies elsewhere: the newest of those that are wanted are looked at too
        found = np.union1d(found, inside[:EXACT])
    return _near(root, vector, vectors.of(root, found.tolist()), limit)


def _among_many(postings: Postings, vectors: VectorIndex, wanted: Wanted, vector: Matrix, limit: int) -> Seqs:
    """What a graph finds of the wanted, of which it knows nothing: so many are asked for that enough are wanted."""
    reach = _REACH
    while True:
        found = vectors.nearest(root_of(wanted.scope), vector, reach).seqs
        kept = np.array([row.seq for row in postings.rows(found.tolist(), wanted)], np.int64)
        if len(kept) >= limit or len(found) < reach or reach == _FARTHEST:
            return kept
        reach = min(_FARTHEST, max(2 * reach, int(_SPARE * reach * limit / max(len(kept), 1))))


def _near(root: str, vector: Matrix, held: Vectors, limit: int) -> Near:
    """These documents by similarity, exactly."""
    similarity = held.cosines(root, vector)
    best = np.argsort(-similarity, kind="stable")[:limit]
    return Near(tuple(int(held.seqs[place]) for place in best), int((similarity >= NEAR).sum()))
