"""Vectors in Chroma, embedded or at whoever owns the folder. One collection for each scope root.

The vectors are also kept in a file, from which a lost or damaged collection is filled again, and which answers
exactly among few.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection

from instar.memstore.recall.errors import IndexFailed
from instar.memstore.recall.index import PATIENT, Matrix, Vectors
from instar.memstore.recall.source import GraphSource
from instar.memstore.recall.vector_file import VectorFile

_AT_ONCE = 2_000
_FEW = 2_500
"""Up to so many vectors of a root are compared one by one, which is as fast as a graph, and exact."""
_AROUND = 1_000
"""So many are asked for at least: the graph looks around no further than for what it is asked for. Of the true first
ten among 100,000 that finds 93 %, where 300 find 81 %, and takes no longer than the words beside it."""


class ChromaVectors:
    """Vectors of one embedder. Graphs are opened when they are first needed: exact search does without them."""

    def __init__(self, source: GraphSource, file: VectorFile, embedder: str) -> None:
        self._source, self._file = source, file
        source.attach()
        self._open = True
        self._suffix = suffix_of(embedder)
        self._many: set[str] = set()
        """Roots that were seen to have more than a few."""
        self._sound: set[str] = set()
        """Roots whose collection was seen to hold all that the file holds."""

    def put(self, root: str, vectors: Vectors, *, within: float = PATIENT) -> None:
        """Into the file and the collection."""
        if not len(vectors.seqs):
            return
        self._file.put(root, vectors)
        self._upsert(root, vectors, within)

    def take(self, root: str, seqs: Collection[int], *, within: float = PATIENT) -> None:
        """Out of both."""
        if not seqs:
            return
        held = self._file.of(root, seqs).seqs.tolist()
        if held:
            with self._source.graphs() as graphs:
                graphs.take(self._name(root), held, within=within)
        self._file.take(seqs)

    def nearest(self, root: str, vector: Matrix, limit: int) -> Vectors:
        """All of a root where they are few; by Chroma's HNSW graph among many. Their vectors are from the file."""
        if root not in self._many and self._file.count_of(root, most=_FEW + 1) <= _FEW:
            return self._file.nearest(root, vector, limit)
        self._many.add(root)
        if not self._is_sound(root):
            raise IndexFailed(self._source.location, "a collection is stale or half-built")
        with self._source.graphs() as graphs:
            found = graphs.nearest(self._name(root), vector, max(limit, _AROUND))[:limit]
        return self._file.of(root, found.tolist())

    def of(self, root: str, seqs: Collection[int]) -> Vectors:
        """From the file."""
        return self._file.of(root, seqs)

    def count(self) -> int:
        """How many vectors Chroma holds."""
        with self._source.graphs() as graphs:
            return sum(graphs.count(self._name(root)) for root in self._file.roots())

    def through(self) -> int:
        """As the file remembers."""
        return self._file.through()

    def advance(self, through: int) -> None:
        """Remember it in the file, after both hold the vectors."""
        self._file.advance(through)

    def repair(self) -> int:
        """Make collections anew that do not hold as many vectors as the file."""
        damaged = [root for root in self._file.roots() if not self._is_sound(root)]
        for root in damaged:
            self._refill(root)
        return len(damaged)

    def _is_sound(self, root: str) -> bool:
        """Whether a collection holds as many vectors as the file; once seen, that is not counted again."""
        if root not in self._sound:
            with self._source.graphs() as graphs:
                if graphs.count(self._name(root)) != self._file.count_of(root):
                    return False
            self._sound.add(root)
        return True

    def _refill(self, root: str) -> None:
        with self._source.graphs() as graphs:
            graphs.drop(self._name(root))
        after = 0
        while len((part := self._file.page(root, after, _AT_ONCE)).seqs):
            self._upsert(root, part)
            after = int(part.seqs[-1])

    def clear(self) -> None:
        """Drop the collections of this embedder, and the vectors in the file."""
        with self._source.graphs() as graphs:
            for name in graphs.names():
                if name.endswith(f"-{self._suffix}"):
                    graphs.drop(name)
        self._sound.clear()
        self._file.clear()

    def close(self) -> None:
        """Close the file, and let go of Chroma."""
        if self._open:
            self._open = False
            self._file.close()
            self._source.close()

    def _upsert(self, root: str, vectors: Vectors, within: float = PATIENT) -> None:
        with self._source.graphs() as graphs:
            graphs.put(self._name(root), vectors.seqs, vectors.matrix, within=within)

    def _name(self, root: str) -> str:
        # The name of a root may be longer, shorter, or of other characters than Chroma takes.
        return f"root-{hashlib.sha256(root.encode()).hexdigest()[:24]}-{self._suffix}"


def suffix_of(embedder: str) -> str:
    """A short name of an embedder, for files and collections."""
    return hashlib.sha256(embedder.encode()).hexdigest()[:8]
