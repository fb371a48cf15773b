"""What a page counts for: a sum of named parts, so that it can be explained.

Pages are never changed for it: it is computed from what is on record when it is asked for, and fades by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from instar.memstore.pages import Page, PageType, Pin, State
from instar.memstore.recall.links import Link, Relation
from instar.memstore.recall.verdicts import Verdict, worth

HELPFUL, WRONG = "feedback:helpful", "feedback:wrong"
"""Tags by which people say what a page is worth."""
HALF_LIFE = timedelta(days=30)
"""After this time what speaks for a page by its freshness is half of what it was."""
_FRESH = 0.2
_STATE = {State.SUCCESS: 0.05, State.ERROR: 0.1, State.INTERMEDIATE: -0.05, State.PENDING: -0.05}
"""Failures teach more than successes; what is unfinished least."""
_PIN = {Pin.HARD: 0.3, Pin.SOFT: 0.1, Pin.NONE: 0.0}
_REFERENCE, _MOST_REFERENCES = 0.02, 0.1
_SAME, _MOST_SAME = 0.05, 0.15
_CONTRADICTED, _SUMMARISED = -0.3, -0.2
_ACCESS, _MOST_ACCESS = 0.02, 0.1
_FEEDBACK, _REVIEW = 0.25, 0.2


@dataclass(frozen=True, slots=True)
class Importance:
    """A value between 0 and 1, and what it is made of."""

    value: float
    parts: Mapping[str, float]


def importance_of(
    page: Page,
    links: Sequence[Link],
    *,
    now: datetime,
    accesses: int = 0,
    verdicts: Sequence[Verdict] = (),
) -> Importance:
    """The importance of a page now; `accesses` counts the recalls that showed it, fading as `Upkeep.fade` says."""
    parts: dict[str, float] = {"written": page.importance}
    parts["state"] = _STATE[page.state]
    parts["pin"] = _PIN[page.pin]
    parts["preference"] = 0.1 if page.type is PageType.PREFERENCE else 0.0
    parts["evidence"] = min(_REFERENCE * len(page.provenance.references), _MOST_REFERENCES)
    parts["said again"] = min(_SAME * _count(links, Relation.SAME_AS), _MOST_SAME)
    parts["contradicted"] = _CONTRADICTED if _aimed(links, Relation.CONTRADICTS, page.id) else 0.0
    parts["summarised"] = _SUMMARISED if _aimed(links, Relation.SUMMARISES, page.id) else 0.0
    parts["recalled"] = min(_ACCESS * accesses, _MOST_ACCESS)
    said = feedback_on(page) + worth(verdicts, "feedback", now)
    parts["feedback"] = _FEEDBACK * max(-1.0, min(1.0, said))
    parts["review"] = _REVIEW * worth(verdicts, "review", now)
    age = max(now - page.updated_at, timedelta())
    parts["fresh"] = _FRESH * 0.5 ** (age / HALF_LIFE) - _FRESH / 2
    parts["archived"] = -0.5 if page.hidden else 0.0
    kept = {name: value for name, value in parts.items() if value}
    return Importance(max(0.0, min(1.0, sum(kept.values()))), kept)


def feedback_on(page: Page) -> int:
    """1 where somebody said that the page helped, -1 where somebody said that it is wrong."""
    return (HELPFUL in page.tags) - (WRONG in page.tags)


def _count(links: Sequence[Link], relation: Relation) -> int:
    return sum(link.relation is relation for link in links)


def _aimed(links: Sequence[Link], relation: Relation, page_id: str) -> bool:
    return any(link.relation is relation and link.target == page_id for link in links)
