"""Ranking by meaning: exactly among few, by the graph among many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from instar.memstore.recall.documents import root_of
from instar.memstore.recall.errors import IndexFailed
from instar.memstore.recall.index import Matrix, Postings, Seqs, VectorIndex, Wanted

EXACT = 2_500
"""Up to so many documents are compared one by one, which is faster than a filter on a graph and misses none."""
_REACH = 300
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
    if not narrowed and postings.totals(root)[0] > EXACT:
        return _near(vectors, root, vector, vectors.nearest(root, vector, limit), limit)
    inside = postings.holding(wanted, [], EXACT + 1)
    if len(inside) > EXACT:
        found = vectors.nearest(root, vector, _REACH)
        kept = {row.seq for row in postings.rows(found.tolist(), wanted)}
        # What the graph finds may lie elsewhere; the newest of those that are wanted are looked at in any case.
        inside = np.unique(np.concatenate([inside, np.fromiter(kept, np.int64, len(kept))]))
    return _near(vectors, root, vector, inside, limit)


def _near(vectors: VectorIndex, root: str, vector: Matrix, seqs: Seqs, limit: int) -> Near:
    """These documents by similarity, exactly."""
    held = vectors.of(root, seqs.tolist())
    if not len(held.seqs):
        return Near()
    if held.matrix.shape[1] != len(vector):
        raise IndexFailed(
            root, f"its vectors have {held.matrix.shape[1]} numbers, and the embedder gives {len(vector)}"
        )
    similarity = held.matrix @ vector
    best = np.argsort(-similarity, kind="stable")[:limit]
    return Near(tuple(int(held.seqs[place]) for place in best), int((similarity >= NEAR).sum()))
