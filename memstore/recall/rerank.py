"""The seam for a reranker: it may change the order of hits and nothing else, and a search never depends on it."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Protocol

from instar.memstore.recall.errors import RerankerFailed

RERANKED = 30
"""At most so many candidates are scored for one search, of which the best are shown."""
_READ = 2_000
"""Characters of each that are read."""


class Reranker(Protocol):
    """Scores texts against a query; a cross-encoder, where one is installed."""

    def __call__(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """One finite score for each text, higher is better.

        Raises:
            RerankerFailed: there are no scores to be had. What a library raises of itself (RuntimeError, ValueError,
                OSError) is taken for that.
        """
        ...


def order_of(reranker: Reranker, query: str, texts: Sequence[str]) -> list[int]:
    """The places of the texts in the order of their scores; ties keep their order, and none is lost.

    Raises:
        RerankerFailed: it gave no scores, or not one finite number for each text.
    """
    try:
        scores = [float(score) for score in reranker(query, [text[:_READ] for text in texts])]
    except (RuntimeError, ValueError, TypeError, OSError) as error:
        raise RerankerFailed(f"{type(error).__name__}: {error}"[:300]) from error
    if len(scores) != len(texts):
        raise RerankerFailed(f"{len(texts)} texts got {len(scores)} scores")
    if not all(map(isfinite, scores)):
        raise RerankerFailed("a score is not a number")
    return sorted(range(len(texts)), key=lambda place: (-scores[place], place))
