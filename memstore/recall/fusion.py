"""Brings several rankings together by reciprocal ranks (Cormack, Clarke and Büttcher, 2009)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

K = 10
"""How slowly the worth of a place falls. Of the original 60 little is left of a clear first place."""
STATIC_WEIGHT = 0.3
"""What a ranking by static word vectors counts for, against 1 for words; models of whole sentences count for 1."""


@dataclass(frozen=True, slots=True)
class Fused:
    """A document with its places, from 1."""

    seq: int
    score: float
    lexical: int | None
    vector: int | None


def fuse(lexical: Sequence[int], vector: Sequence[int], weight: float, *, sure: int) -> list[Fused]:
    """The documents of both, best first; ties go to the newer. What words did not find must be among the first
    `sure` by meaning."""
    by_words = _places(lexical)
    by_meaning = _places(vector)
    found = []
    for seq in by_words.keys() | by_meaning.keys():
        first, second = by_words.get(seq), by_meaning.get(seq)
        if first is None and second is not None and second > sure:
            continue
        score = (1 / (K + first - 1) if first else 0.0) + (weight / (K + second - 1) if second else 0.0)
        found.append(Fused(seq, score, first, second))
    return sorted(found, key=lambda one: (-one.score, -one.seq))


def _places(ranking: Sequence[int]) -> Mapping[int, int]:
    return {seq: place for place, seq in enumerate(ranking, start=1)}
