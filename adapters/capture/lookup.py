"""Ranking by the words of a query (BM25), where there is no time to open the index of recall.

S. Robertson and H. Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, 2009.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from instar.core.records import MEMORY
from instar.memstore import Page, Principal, Store

CANDIDATES = 2_000
"""So many of the newest memories are ranked."""
_K1, _B = 1.2, 0.75
_WORD = re.compile(r"[^\W_]+", re.UNICODE)
_CJK = re.compile(r"[぀-ヿ㐀-鿿가-힯]+")
_READ = 4_000


def lessons(store: Store, by: Principal, *, scope: str, query: str, limit: int) -> list[str]:
    """The memories of a scope that share words with the query, a line each, best first.

    A prompt waits for this, so no index is opened; where there are more memories, the newest are ranked.

    Raises:
        ScopeDenied: no grant covers the scope.
        MemstoreError: the store cannot be read.
    """
    pages = list(store.find(by, scope=scope, kind=MEMORY, limit=CANDIDATES, newest_first=True))
    order = rank(query, [page.full[:_READ] for page in pages])
    return [_line(pages[at]) for at, _ in order[:limit]]


def _line(page: Page) -> str:
    """A memory in one line, with what lets the reader doubt it: its support and its age."""
    statement = page.content.get("statement")
    text = statement if isinstance(statement, str) else page.forms.compressed
    days = max((datetime.now(UTC) - page.created_at).days, 0)
    return f"{' '.join(text.split())[:400]} (rests on {len(page.provenance.references)} records, {days} days old)"


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
