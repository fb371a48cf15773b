"""From texts to vectors, behind one callable. An embedder is named so that vectors of two never mix."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

import numpy as np

from instar.memstore.bystanders import imported
from instar.memstore.errors import InvalidRequest
from instar.memstore.recall.endpoint import Endpoint
from instar.memstore.recall.errors import EmbedderFailed
from instar.memstore.recall.index import Matrix


class Embedder(Protocol):
    """Turns texts into unit vectors."""

    @property
    def name(self) -> str:
        """What the vectors are called by; another name means other vectors."""
        ...

    @property
    def cheap(self) -> bool:
        """Whether computing a vector costs no more than looking it up, so that a cache would not pay."""
        ...

    def __call__(self, texts: Sequence[str]) -> Matrix:
        """One row for each text, of length 1; a text without any known word gives a row of zeros.

        Raises:
            EmbedderFailed: there are no vectors to be had.
        """
        ...


class WordLlama:
    """Static word vectors that come with the wheel of that name: 256 dimensions, offline, one core, no model run."""

    name = "wordllama-256"
    cheap = True

    def __call__(self, texts: Sequence[str]) -> Matrix:
        """The mean of the vectors of the word pieces."""
        if not texts:
            return np.zeros((0, 256), np.float32)
        return unit(_wordllama()(list(texts)))


@cache
def _wordllama() -> Callable[[list[str]], Matrix]:
    """Sums of the vectors of the word pieces: the direction of their mean, in half the time of the package."""
    wordllama = imported("wordllama")  # loading the weights is not free: only who embeds pays for it
    try:
        model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    except (OSError, ValueError) as error:
        raise EmbedderFailed(WordLlama.name, f"the weights do not load: {error}") from error
    pieces, weights = model.tokenizer, np.asarray(model.embedding, np.float32)
    pieces.no_padding()

    def pool(texts: list[str]) -> Matrix:
        found = np.zeros((len(texts), weights.shape[1]), np.float32)
        for row, encoded in zip(found, pieces.encode_batch_fast(texts, add_special_tokens=False), strict=True):
            if encoded.ids:
                weights[encoded.ids].sum(axis=0, out=row)
        return found

    return pool


class SentenceTransformers:
    """A model of the `sentence-transformers` package, where that is installed. Nothing is fetched."""

    cheap = False

    def __init__(self, model: str) -> None:
        self.name = f"sentence-transformers:{model}"
        try:
            from sentence_transformers import SentenceTransformer  # type: ignore[import-not-found]  # noqa: PLC0415

            self._model = SentenceTransformer(model, local_files_only=True)
        except ImportError as error:
            raise EmbedderFailed(self.name, "the package sentence-transformers is not installed") from error
        except (OSError, ValueError) as error:
            raise EmbedderFailed(self.name, f"the model is not on this machine: {error}"[:300]) from error

    def __call__(self, texts: Sequence[str]) -> Matrix:
        """As the model says."""
        if not texts:
            return np.zeros((0, 1), np.float32)
        return unit(np.asarray(self._model.encode(list(texts), show_progress_bar=False), np.float32))


def embedder_of(name: str, environment: Mapping[str, str] | None = None) -> Embedder:
    """The embedder of a setting: `wordllama`, `MODEL@http://HOST/v1`, or `sentence-transformers:MODEL`.

    The key of an endpoint is read from `INSTAR_EMBEDDER_KEY`, never from a file.

    Raises:
        InvalidRequest: the name has no meaning.
        EmbedderFailed: what it needs is missing.
    """
    given = os.environ if environment is None else environment
    if name in ("wordllama", WordLlama.name):
        return WordLlama()
    if name.startswith("sentence-transformers:"):
        return SentenceTransformers(name.partition(":")[2])
    model, at, base = name.rpartition("@")
    if at:
        return Endpoint(base, model, key=given.get("INSTAR_EMBEDDER_KEY", ""))
    raise InvalidRequest(
        f"unknown embedder {name[:80]!r}: give wordllama, MODEL@http://HOST/v1, or sentence-transformers:MODEL"
    )


def unit(matrix: Matrix) -> Matrix:
    """The rows at length 1; rows of zeros, or of what is no number, become zeros."""
    clean = np.nan_to_num(matrix, nan=0.0, posinf=0.0, neginf=0.0)
    length = np.linalg.norm(clean, axis=1, keepdims=True)
    scaled: Matrix = np.divide(clean, length, out=np.zeros_like(clean), where=length > 0)
    return scaled
