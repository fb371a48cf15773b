"""The seam for a reranker: it may change the order of hits and nothing else, and a search never depends on it."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Protocol

from instar.memstore.errors import InvalidRequest
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


class CrossEncoders:
    """A cross-encoder of the `sentence-transformers` package, where that is installed. Nothing is fetched."""

    def __init__(self, model: str) -> None:
        """
        Raises:
            RerankerFailed: the package or the model is not there.
        """
        try:
            from sentence_transformers import CrossEncoder  # type: ignore[import-not-found]  # noqa: PLC0415

            self._model = CrossEncoder(model, local_files_only=True)
        except ImportError as error:
            raise RerankerFailed("the package sentence-transformers is not installed") from error
        except (OSError, ValueError) as error:
            raise RerankerFailed(f"the model {model} is not on this machine: {error}"[:300]) from error

    def __call__(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """As the model says."""
        pairs = [(query, text) for text in texts]
        return [float(score) for score in self._model.predict(pairs, show_progress_bar=False)]


def reranker_of(name: str) -> Reranker | None:
    """The reranker of a setting: none, or `sentence-transformers:MODEL`.

    Raises:
        InvalidRequest: the name has no meaning.
        RerankerFailed: what it needs is missing.
    """
    if not name:
        return None
    kind, _, model = name.partition(":")
    if kind != "sentence-transformers" or not model:
        raise InvalidRequest(f"unknown reranker {name[:80]!r}: give sentence-transformers:MODEL")
    return CrossEncoders(model)


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
