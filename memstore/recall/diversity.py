"""Choosing hits that do not all say nearly the same: maximal marginal relevance (Carbonell and Goldstein, 1998)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from instar.memstore.recall.index import Matrix

SHARE = 0.3
"""How much of the choice depends on being unlike what was chosen before, against being about the query."""
UNLIKE = 0.75
"""Pages that are less similar than this are as good as unlike: pages about one query are somewhat alike."""


def diverse(scores: Sequence[float], rows: Mapping[int, Matrix], limit: int) -> list[int]:
    """The places of at most `limit` candidates, in the order of the choice. `scores` fall, and are not negative;
    `rows` are the unit vectors, by place, of those that have one. The first candidate always comes first."""
    count = len(scores)
    if count <= 1 or scores[0] <= 0:
        return list(range(min(count, limit)))
    likeness = _likeness(count, rows)
    worth = np.asarray(scores) / scores[0]
    nearest = np.zeros(count)
    chosen: list[int] = []
    left = np.ones(count, bool)
    while left.any() and len(chosen) < limit:
        marginal = np.where(left, (1 - SHARE) * worth - SHARE * nearest, -np.inf)
        best = int(marginal.argmax())  # the first of equals
        chosen.append(best)
        left[best] = False
        nearest = np.maximum(nearest, likeness[best])
    return chosen


def _likeness(count: int, rows: Mapping[int, Matrix]) -> Matrix:
    """For each pair, between 0 (unlike, or not known) and 1."""
    found = np.zeros((count, count), np.float32)
    places = sorted(rows)
    if places:
        matrix = np.stack([rows[place] for place in places])
        found[np.ix_(places, places)] = np.clip((matrix @ matrix.T - UNLIKE) / (1 - UNLIKE), 0, 1)
    return found
