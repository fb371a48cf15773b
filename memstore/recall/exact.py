"""Vectors in memory, compared one by one: for stores that live in memory, and as the measure of every other index."""

from __future__ import annotations

from collections.abc import Collection

from instar.memstore.recall.index import PATIENT, Matrix, Vectors
from instar.memstore.recall.vector_file import VectorFile


class ExactVectors:
    """A vector index without a graph."""

    def __init__(self) -> None:
        self.file = VectorFile(None)

    def put(self, root: str, vectors: Vectors, *, within: float = PATIENT) -> None:
        """Keep vectors."""
        if len(vectors.seqs):
            self.file.put(root, vectors)

    def take(self, root: str, seqs: Collection[int], *, within: float = PATIENT) -> None:
        """Forget vectors."""
        self.file.take(self.file.of(root, seqs).seqs.tolist())

    def nearest(self, root: str, vector: Matrix, limit: int) -> Vectors:
        """All of a root are compared."""
        return self.file.nearest(root, vector, limit)

    def of(self, root: str, seqs: Collection[int]) -> Vectors:
        """Those that there are."""
        return self.file.of(root, seqs)

    def count(self) -> int:
        """Over all roots."""
        return sum(map(self.file.count_of, self.file.roots()))

    def through(self) -> int:
        """As remembered."""
        return self.file.through()

    def advance(self, through: int) -> None:
        """Remember it."""
        self.file.advance(through)

    def repair(self) -> int:
        """There is nothing that could fall apart."""
        return 0

    def clear(self) -> None:
        """Forget all vectors."""
        self.file.clear()

    def close(self) -> None:
        """Give back the memory."""
        self.file.close()
