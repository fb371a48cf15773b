"""Finds statements that say the same, and statements that contradict each other. It only proposes links.

What makes a contradiction is exact (the same subject with another value; the same words but for a negation), and so
is a part of what makes a repetition (the same numbers). Statements are sorted by that first, and vectors are compared
only within, so that many thousands of new ones cost seconds.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from instar.memstore.pages import Page, digest_of
from instar.memstore.recall.documents import doc_of, root_of
from instar.memstore.recall.feed import Side
from instar.memstore.recall.index import Matrix
from instar.memstore.recall.links import Link, Relation
from instar.memstore.recall.showing import SAME, figures_of
from instar.memstore.recall.words import query_terms

_ALIKE = 0.85
"""Two statements that differ in a negation only are at least so similar."""
_LINKED = 20
"""A statement contradicts at most so many, the newest of those that are older."""
_AT_ONCE = 256
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|cannot|without|\w+n['’]t)\b|不|没|無|ない|ません|ず(?:に|、|。)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Found:
    """A link that is proposed, with what speaks for it."""

    link: Link
    why: str


@dataclass(frozen=True, slots=True)
class Statement:
    """What of a page matters when it is compared with others."""

    id: str
    seq: int
    at: datetime
    digest: str
    subject: str
    value: str
    topic: str
    """The same for statements of the same words, whether they are negated or not."""
    figures: str
    negated: bool


Rows = Mapping[int, Matrix]
"""Unit vectors, by document."""


def statement_of(page: Page) -> Statement:
    """The statement that a page makes."""
    subject, value = page.content.get("subject"), page.content.get("value")
    stated = isinstance(subject, str)
    return Statement(
        id=page.id,
        seq=page.seq,
        at=page.created_at,
        digest=page.digest,
        subject=subject.casefold() if isinstance(subject, str) else "",
        value=str(value).casefold() if stated else "",
        topic=_key(query_terms(_NEGATION.sub(" ", page.full))),
        figures=_key(figures_of(page)),
        negated=bool(_NEGATION.search(page.full)),
    )


def compare(statements: Collection[Statement], new: Collection[int], rows: Rows) -> Iterator[Found]:
    """Links from the new ones (by their numbers) to older ones, among statements of one kind in one scope.

    Of several that say the same only the oldest is linked to, so that there are as many links as repetitions. Those
    without a vector are only compared by their words.
    """
    ordered = sorted(statements, key=lambda one: (one.at, one.seq))
    like = _repetitions(ordered, frozenset(new), rows)
    subjects: defaultdict[str, deque[Statement]] = defaultdict(lambda: deque(maxlen=_LINKED))
    topics: defaultdict[tuple[str, bool], deque[Statement]] = defaultdict(lambda: deque(maxlen=_LINKED))
    for one in ordered:
        if one.seq in new:
            for other in subjects[one.subject] if one.subject else ():
                if one.value != other.value:
                    yield _contradiction(one, other, "the same subject has another value")
            for other in topics[one.topic, not one.negated]:
                if not (one.subject and one.subject == other.subject) and _cosine(one, other, rows) >= _ALIKE:
                    yield _contradiction(one, other, "one of two like statements is negated")
            if twin := like.get(one.seq):
                yield Found(Link(Relation.SAME_AS, one.id, twin[0].id), f"similarity {twin[1]:.2f}")
        if one.subject:
            subjects[one.subject].append(one)
        topics[one.topic, one.negated].append(one)


def rows_of(
    pages: Callable[[Sequence[str]], Collection[Page]], statements: Sequence[Statement], root: str, side: Side | None
) -> Rows:
    """Vectors of statements as the index has them; what is missing there is read and computed now.

    Raises:
        IndexFailed, IndexHeld, EmbedderFailed: they are not to be had.
    """
    if side is None:
        return {}
    held = side.vectors.of(root, [one.seq for one in statements])
    rows = dict(zip(held.seqs.tolist(), held.matrix, strict=True))
    if missing := [one.id for one in statements if one.seq not in rows]:
        docs = [doc_of(page) for page in pages(missing) if root_of(page.scope) == root]
        rows |= dict(zip((doc.seq for doc in docs), side.embed(docs) if docs else (), strict=True))
    return rows


def _repetitions(
    ordered: Sequence[Statement], new: Collection[int], rows: Rows
) -> dict[int, tuple[Statement, float]]:
    """For each new one that says what an older one says: the oldest that does, and how similar they are."""
    found: dict[int, tuple[Statement, float]] = {}
    firsts: dict[str, Statement] = {}
    blocks: defaultdict[tuple[str, str, str, bool], list[Statement]] = defaultdict(list)
    for one in ordered:
        first = firsts.setdefault(one.digest, one)
        if first is one:
            blocks[one.subject, one.value, one.figures, one.negated].append(one)
        elif one.seq in new:
            found[one.seq] = (first, 1.0)
    for members in blocks.values():
        with_vectors = [one for one in members if one.seq in rows]
        if len(with_vectors) > 1 and any(one.seq in new for one in with_vectors):
            found |= _nearest(with_vectors, new, np.stack([rows[one.seq] for one in with_vectors]))
    return found


def _nearest(
    members: Sequence[Statement], new: Collection[int], matrix: Matrix
) -> dict[int, tuple[Statement, float]]:
    found: dict[int, tuple[Statement, float]] = {}
    places = [place for place, one in enumerate(members) if one.seq in new]
    for at in range(0, len(places), _AT_ONCE):
        asked = np.array(places[at : at + _AT_ONCE])
        likeness = matrix[asked] @ matrix[: asked[-1] + 1].T
        older = np.arange(likeness.shape[1]) < asked[:, None]
        same = (likeness >= SAME) & older
        oldest = same.argmax(axis=1)
        for row in np.flatnonzero(same.any(axis=1)):
            twin = int(oldest[row])
            found[members[int(asked[row])].seq] = (members[twin], float(likeness[row, twin]))
    return found


def _contradiction(one: Statement, other: Statement, why: str) -> Found:
    return Found(Link(Relation.CONTRADICTS, one.id, other.id), why)


def _cosine(one: Statement, other: Statement, rows: Rows) -> float:
    first, second = rows.get(one.seq), rows.get(other.seq)
    return 0.0 if first is None or second is None else float(np.dot(first, second))


def _key(words: Collection[str]) -> str:
    return digest_of("\0".join(sorted(words)))[:24] if words else ""
