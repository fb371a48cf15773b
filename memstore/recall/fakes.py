"""An embedder for tests: no weights, no network, and it counts what it is asked."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from instar.memstore.recall.embedders import unit
from instar.memstore.recall.errors import EmbedderFailed
from instar.memstore.recall.index import Matrix
from instar.memstore.recall.words import terms


class HashedWords:
    """Every word is a fixed pseudo-random direction; texts that share words are near."""

    def __init__(self, name: str = "hashed", *, dimensions: int = 64) -> None:
        self.name, self.cheap = name, False
        self.dimensions = dimensions
        self.asked: list[str] = []
        self.broken = False

    def __call__(self, texts: Sequence[str]) -> Matrix:
        """The sum of the directions of the words."""
        if self.broken:
            raise EmbedderFailed(self.name, "switched off by the test")
        self.asked += texts
        found = np.zeros((len(texts), self.dimensions), np.float32)
        for place, text in enumerate(texts):
            for word in terms(text):
                seed = int.from_bytes(hashlib.sha256(f"{self.name} {word}".encode()).digest()[:8], "big")
                found[place] += np.random.default_rng(seed).standard_normal(self.dimensions).astype(np.float32)
        return unit(found)
