"""Finds pages that say the same, and pages that contradict each other. It only proposes links; no page is changed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from instar.memstore.pages import Page
from instar.memstore.recall.documents import Doc, doc_of, root_of
from instar.memstore.recall.feed import Side
from instar.memstore.recall.index import Postings, Wanted
from instar.memstore.recall.lexical import rank_by_words
from instar.memstore.recall.links import Link, Relation
from instar.memstore.recall.showing import SAME, same_figures
from instar.memstore.recall.words import STOP, query_terms

_CANDIDATES = 20
_TERMS = 12
_ALIKE = 0.85
"""Two statements that differ in a negation only are at least so similar."""
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|cannot|without|\w+n['’]t)\b|不|没|無|ない|ません|ず(?:に|、|。)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Found:
    """A link that is proposed, with what speaks for it."""

    link: Link
    why: str


def compare(page: Page, others: Iterable[Page], side: Side | None) -> Iterator[Found]:
    """Links from a page to older ones of the same kind and scope.

    Pages with a `subject` and a `value` contradict each other where the subject is the same and the value is not.
    Statements contradict each other where they are nearly the same and one of them is negated. Of several pages that
    say the same, only the oldest is linked to, so that there are as many links as repetitions.
    """
    older = sorted((one for one in others if _before(one, page) and one.kind == page.kind), key=lambda one: one.seq)
    likeness = _likeness([page, *older], side) if older else []
    said = False
    for other, alike in zip(older, likeness, strict=True):
        subject, value = _stated(page)
        if subject and subject == _stated(other)[0]:
            if value != _stated(other)[1]:
                yield Found(Link(Relation.CONTRADICTS, page.id, other.id), "the same subject has another value")
            continue
        negated = bool(_NEGATION.search(page.full)) != bool(_NEGATION.search(other.full))
        if negated and alike >= _ALIKE and _differ_by_negation(page, other):
            yield Found(Link(Relation.CONTRADICTS, page.id, other.id), "one of two like statements is negated")
        elif not said and (
            page.digest == other.digest or (alike >= SAME and not negated and same_figures(page, other))
        ):
            said = True
            yield Found(Link(Relation.SAME_AS, page.id, other.id), f"similarity {alike:.2f}")


def candidates(page: Page, postings: Postings) -> list[int]:
    """Documents that are worth comparing with a page: those of its scope that share its rarer words."""
    asked = query_terms(page.full)[:_TERMS]
    return [seq for seq in rank_by_words(postings, Wanted(page.scope), asked, _CANDIDATES).seqs if seq != page.seq]


def _likeness(pages: Sequence[Page], side: Side | None) -> list[float]:
    """How similar the first is to each of the others."""
    if side is None:
        return [0.0] * (len(pages) - 1)
    held = side.vectors.of(root_of(pages[0].scope), [page.seq for page in pages])
    rows = dict(zip(held.seqs.tolist(), held.matrix, strict=True))
    missing: list[Doc] = [doc_of(page) for page in pages if page.seq not in rows]
    if missing:
        rows |= dict(zip((doc.seq for doc in missing), side.embed(missing), strict=True))
    first = rows[pages[0].seq]
    return [float(np.dot(first, rows[page.seq])) for page in pages[1:]]


def _before(other: Page, page: Page) -> bool:
    return (other.created_at, other.seq) < (page.created_at, page.seq)


def _stated(page: Page) -> tuple[str, str]:
    subject, value = page.content.get("subject"), page.content.get("value")
    return (subject.casefold(), str(value).casefold()) if isinstance(subject, str) else ("", "")


def _differ_by_negation(page: Page, other: Page) -> bool:
    """Whether the words are the same but for those that negate."""
    return _topic(page) == _topic(other)


def _topic(page: Page) -> frozenset[str]:
    words = re.findall(r"\w+", _NEGATION.sub(" ", page.full.casefold()))
    return frozenset(term for word in words if word not in STOP for term in query_terms(word))
