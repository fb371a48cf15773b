"""The seams of the index: one for words, one for vectors. Both are derived from the store and can be built anew."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from instar.memstore.recall.documents import Doc
from instar.memstore.recall.errors import IndexFailed

Seqs = NDArray[np.int64]
Matrix = NDArray[np.float32]
PATIENT = 60.0
"""Seconds to wait for another process where nobody waits for an answer."""
NOTED_WITHIN = 0.1
"""Seconds that it may take until it can be noted what was shown."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The pages that may come up at all, as far as an index can tell. The store is asked again at the end."""

    scope: str
    marks: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None
    now: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """A document as it is kept."""

    seq: int
    id: str
    session: int
    length: int
    counts: Mapping[str, int]
    """How often those of the terms occur that were asked about."""


class Postings(Protocol):
    """Which documents hold which terms."""

    def holding(self, wanted: Wanted, terms: Sequence[str], limit: int) -> Seqs:
        """Documents that hold all of these terms, the newest first, at most so many; without terms, all wanted."""
        ...

    def each(self, wanted: Wanted, terms: Sequence[str], limit: int, *, beside: Sequence[str] = ()) -> list[Seqs]:
        """The same for each of these terms by itself, in one go; where terms to stand beside are given, only those
        documents that hold another one of them as well."""
        ...

    def rows(self, seqs: Collection[int], wanted: Wanted, terms: Sequence[str] = ()) -> list[Row]:
        """Those of these documents that are wanted, in any order, with how often each of these terms occurs."""
        ...

    def beside(self, rows: Sequence[Row]) -> Mapping[int, tuple[int, int]]:
        """For each row the documents before and after it in its session; 0 where there is none."""
        ...

    def names(self, seqs: Collection[int]) -> dict[int, str]:
        """The page ids of those documents that there are."""
        ...

    def totals(self, scope: str) -> tuple[int, int]:
        """How many documents there are in and below a scope, and how many terms in them."""
        ...

    def shares(self, scope: str, terms: Sequence[str]) -> Mapping[str, float]:
        """About which share of the documents of a scope's root holds each of these terms; those for which that is
        not known, or costs no less than reading them, are missing."""
        ...


class WordIndex(Postings, Protocol):
    """The index of words, with its writer's side. Each call is atomic, and visible to all processes after it."""

    def turn(self, within: float) -> AbstractContextManager[None]:
        """Be the one that brings the index up to date while the block runs; blocks cannot be nested.

        Raises:
            IndexBusy: another process or thread is, and was for so many seconds.
        """
        ...

    def through(self) -> int:
        """The last change of the outbox that is in the index."""
        ...

    def apply(self, docs: Sequence[Doc], gone: Collection[int], through: int) -> None:
        """Put documents in place of their earlier versions, take out those that are gone, and remember how far."""
        ...

    def withdraw(self, seqs: Collection[int]) -> None:
        """Take out documents that the store still has."""
        ...

    def roots(self) -> list[str]:
        """The scope roots that there are."""
        ...

    def settings(self) -> dict[str, str]:
        """What was remembered beside the documents."""
        ...

    def remember(self, name: str, value: str) -> None:
        """Remember something beside the documents."""
        ...

    def note_shown(self, shown: Mapping[int, int]) -> None:
        """Add to how often documents were shown; a search waits for it, no longer than `NOTED_WITHIN`."""
        ...

    def fade(self, share: float) -> None:
        """Keep only this share of how often what was shown, rounded down; what was shown long ago is forgotten."""
        ...

    def shown(self, seqs: Collection[int]) -> dict[int, int]:
        """How often each of these documents was shown; those that never were are missing."""
        ...

    def clear(self) -> None:
        """Forget everything but how often what was shown."""
        ...

    def purge(self) -> None:
        """Leave no trace of what was taken out."""
        ...

    def close(self) -> None:
        """Give back files and connections."""
        ...


@dataclass(frozen=True, slots=True)
class Vectors:
    """Unit vectors, one row for each document."""

    seqs: Seqs
    matrix: Matrix

    def cosines(self, root: str, vector: Matrix) -> Matrix:
        """The similarity of each to a unit vector.

        Raises:
            IndexFailed: it is of another length than these, which are of this root.
        """
        if len(self.seqs) and self.matrix.shape[1] != len(vector):
            reason = f"its vectors have {self.matrix.shape[1]} numbers, and the embedder gives {len(vector)}"
            raise IndexFailed(root, reason)
        return self.matrix @ vector if len(self.seqs) else np.empty(0, np.float32)


class VectorIndex(Protocol):
    """Vectors of documents, one collection for each scope root. Each call is idempotent.

    What keeps them may be another process, which is waited for no longer than about `within` seconds.
    """

    def put(self, root: str, vectors: Vectors, *, within: float = PATIENT) -> None:
        """Add vectors, or replace those of the same documents."""
        ...

    def take(self, root: str, seqs: Collection[int], *, within: float = PATIENT) -> None:
        """Take out the vectors of documents; those that have none are passed over."""
        ...

    def nearest(self, root: str, vector: Matrix, limit: int) -> Vectors:
        """The documents of a root that are most similar by cosine, approximately, in any order."""
        ...

    def of(self, root: str, seqs: Collection[int]) -> Vectors:
        """The vectors of those documents that have one."""
        ...

    def count(self) -> int:
        """How many vectors there are in all collections."""
        ...


class VectorKeeper(VectorIndex, Protocol):
    """A vector index with its writer's side."""

    def through(self) -> int:
        """The last change of the outbox that is in the index; 0 for none, or where the index was lost."""
        ...

    def advance(self, through: int) -> None:
        """Remember how far it has come."""
        ...

    def repair(self) -> int:
        """Make good what can be made good without the store, graphs that are missing for one; returns how many
        collections that took."""
        ...

    def clear(self) -> None:
        """Forget everything of this embedder."""
        ...

    def close(self) -> None:
        """Give back files and connections."""
        ...


class TextCache(Protocol):
    """Vectors of texts by the SHA-256 of the text, so that none is paid for twice."""

    def known(self, embedder: str, digests: Sequence[str]) -> dict[str, Matrix]:
        """Those that were computed before."""
        ...

    def learn(self, embedder: str, digests: Sequence[str], matrix: Matrix) -> None:
        """Keep them."""
        ...

    def forget(self) -> None:
        """Forget all of them: a text was erased, and its vector says something about it."""
        ...


def counts_in(words: str, counts: bytes, needles: Mapping[str, str]) -> dict[str, int]:
    """How often terms occur in a document whose terms are kept between blanks, beside their counts. A needle is a
    term between two blanks. (Looking for a few among many is quicker than making a dict of all.)"""
    padded = f" {words} "
    found = {}
    for term, needle in needles.items():
        if (place := padded.find(needle)) >= 0:
            found[term] = counts[padded.count(" ", 0, place)]
    return found
