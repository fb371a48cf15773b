"""Search in pages: narrowed by metadata in the store, then ranked by the words of the query (BM25).

S. Robertson and H. Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, 2009.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from instar.memstore import MemstoreError, Page, Principal, ScopeDenied, State, Store

CANDIDATES = 2_000
"""The newest pages that fit the filters are ranked; older ones are counted and named as left out."""
_K1, _B = 1.2, 0.75
_WORD = re.compile(r"[^\W_]+", re.UNICODE)
_CJK = re.compile(r"[぀-ヿ㐀-鿿가-힯]+")
_READ = 4_000


@dataclass(frozen=True, slots=True)
class Hit:
    """A page that was found, and how well it fits."""

    page: Page
    score: float

    @property
    def line(self) -> str:
        """The page in one line, with what lets the reader doubt it: its support and its age."""
        statement = self.page.content.get("statement")
        text = statement if isinstance(statement, str) else self.page.forms.compressed
        days = max((datetime.now(UTC) - self.page.created_at).days, 0)
        rests = len(self.page.provenance.references)
        return f"{' '.join(text.split())[:400]} (rests on {rests} records, {days} days old)"


@dataclass(frozen=True, slots=True)
class Found:
    """An answer. `status` is hit, no-match, denied or backend-error: an empty answer is never ambiguous."""

    status: str
    hits: tuple[Hit, ...] = ()
    degraded: str = ""
    """What the ranking did without."""
    detail: str = ""


def search(
    store: Store,
    by: Principal,
    *,
    scope: str,
    query: str = "",
    kind: str | None = None,
    state: State | None = None,
    tag: str | None = None,
    session: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int = 10,
) -> Found:
    """Pages in and below a scope that fit; without a query the newest."""
    try:
        found = store.find(
            by,
            scope=scope,
            kind=kind,
            state=state,
            tag=tag,
            session=session,
            since=since,
            until=until,
            limit=CANDIDATES if query else limit,
            newest_first=True,
        )
        pages = list(found)
    except ScopeDenied as error:
        return Found("denied", detail=str(error))
    except MemstoreError as error:
        return Found("backend-error", detail=str(error))
    if query:
        order = rank(query, [page.full[:_READ] for page in pages])
        hits = tuple(Hit(pages[at], round(score, 4)) for at, score in order[:limit])
    else:
        hits = tuple(Hit(page, 0.0) for page in pages)
    degraded = "ranked by words only" if query else ""
    if len(pages) == CANDIDATES:
        degraded += f", among the newest {CANDIDATES} pages that fit the filters"
    return Found("hit" if hits else "no-match", hits, degraded)


def rank(query: str, texts: Sequence[str]) -> list[tuple[int, float]]:
    """Positions of the texts that share words with the query, best first, with their scores."""
    terms = set(words(query))
    counted = [Counter(words(text)) for text in texts]
    if not terms or not counted:
        return []
    average = sum(sum(count.values()) for count in counted) / len(counted) or 1.0
    scores: list[tuple[int, float]] = []
    having = {term: sum(1 for count in counted if term in count) for term in terms}
    for at, count in enumerate(counted):
        length = sum(count.values())
        score = sum(
            math.log(1 + (len(counted) - having[term] + 0.5) / (having[term] + 0.5))
            * count[term]
            * (_K1 + 1)
            / (count[term] + _K1 * (1 - _B + _B * length / average))
            for term in terms
            if term in count
        )
        if score > 0:
            scores.append((at, score))
    return sorted(scores, key=lambda found: (-found[1], found[0]))


def words(text: str) -> list[str]:
    """Words in lower case without a plural `s`; scripts without spaces in pairs of letters."""
    found: list[str] = []
    for word in _WORD.findall(text.lower()):
        if _CJK.fullmatch(word):
            found += [word[at : at + 2] for at in range(max(len(word) - 1, 1))]
        elif len(word) > 1:
            found.append(word.removesuffix("s") if len(word) > 3 else word)
    return found
