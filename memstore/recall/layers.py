"""Long-term and short-term memory in one store.

What was learned (memories, skills, preferences, summaries) is long-term and stays in the index. The single steps of
sessions are short-term: they leave it after some time. A task is primed from the words of the long term, and refined
among the vectors of the short term.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from instar.memstore.pages import Page
from instar.memstore.recall.answers import Answer, Filters, Hit, Status
from instar.memstore.recall.documents import spoken
from instar.memstore.recall.feed import DETAILS
from instar.memstore.recall.recall import Recall
from instar.memstore.recall.words import query_terms
from instar.memstore.scopes import Principal

LONG_TERM = ("memory", "note", "profile", "preference", "summary", "publication", "proposal")
"""Kinds that outlast the sessions they came from."""
_KEYWORDS, _FROM_EACH = 8, 3


@dataclass(frozen=True, slots=True)
class Primed:
    """What a task begins with."""

    long_term: tuple[Hit, ...]
    short_term: tuple[Hit, ...]
    keywords: tuple[str, ...]
    """Words that the long term added to the task."""
    status: Status
    reasons: tuple[str, ...] = ()

    @property
    def answer(self) -> Answer:
        """The same as an answer: what was learned comes first."""
        rules = (f"what was learned adds: {', '.join(self.keywords)}",) if self.keywords else ()
        return Answer(self.status, (*self.long_term, *self.short_term), self.reasons, rules=rules)


def prime(recall: Recall, by: Principal, task: str, *, scope: str, limit: int = 5) -> Primed:
    """What was learned about a task, and the recent steps that this points to."""
    learned: list[Hit] = []
    answers: list[Answer] = []
    for kind in LONG_TERM:
        answers.append(
            recall.search(by, task, scope=scope, filters=Filters(kind=kind), limit=_FROM_EACH, literal=True)
        )
        learned += answers[-1].hits
    learned.sort(key=lambda hit: (-hit.score, -hit.page.seq))
    keywords = _keywords(task, (hit.page for hit in learned[:limit]))
    answer = recall.search(by, " ".join([task, *keywords]), scope=scope, limit=3 * limit, literal=True)
    known = {hit.page.id for hit in learned}
    recent = [hit for hit in answer.hits if hit.page.id not in known and hit.page.kind in DETAILS]
    status = answer.status
    # What was not in the index yet is less with every search: the last one says how much that is.
    reasons = dict.fromkeys(answer.reasons)
    for earlier in answers:
        if _worse(earlier.status, answer.status) is not answer.status:
            reasons |= dict.fromkeys(earlier.reasons)
        status = _worse(status, earlier.status)
    return Primed(tuple(learned[:limit]), tuple(recent[:limit]), keywords, status, tuple(reasons))


def _keywords(task: str, pages: Iterable[Page]) -> tuple[str, ...]:
    """Words that several learned pages share and the task lacks."""
    own = set(query_terms(task))
    counted = Counter(term for page in pages for term in query_terms(spoken(page)))
    shared = [term for term, count in counted.most_common() if count > 1 and term not in own]
    return tuple(shared[:_KEYWORDS])


_WORST = (Status.NO_MATCH, Status.HIT, Status.DEGRADED, Status.BACKEND_ERROR, Status.DENIED)


def _worse(one: Status, other: Status) -> Status:
    return max(one, other, key=_WORST.index)
