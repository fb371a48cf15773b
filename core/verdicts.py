"""Reads what people said: feedback on sessions, and decisions about drafts with what those rest on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import islice

from instar.core import records
from instar.core.runtime import Runtime
from instar.memstore import Page, StoreUnavailable
from instar.memstore.recall.verdicts import Verdict, Verdicts

_NEWEST = 500
"""So many words of each kind count; the older ones have faded."""
_EVIDENCE = 0.5
"""What an approval counts for each page that the approved rests on."""


def verdicts_of(rt: Runtime) -> Verdicts:
    """What was said of pages and sessions, by their ids. A store that cannot be read says nothing of them."""
    found: defaultdict[str, list[Verdict]] = defaultdict(list)
    try:
        for page in _newest(rt, "feedback"):
            verdict = Verdict("feedback", page.content.get("good") is True, page.created_at)
            found[str(page.content.get("session", ""))].append(verdict)
        _decisions(rt, found)
    except StoreUnavailable:
        return {}
    return found


def _decisions(rt: Runtime, found: defaultdict[str, list[Verdict]]) -> None:
    """An approval speaks for the proposal and for what it rests on; a rejection only against the proposal: what was
    seen was seen."""
    decided = [page for page in _newest(rt, records.DECISION) if page.content.get("kind") in ("approve", "reject")]
    reviews = _pages(rt, (page.parent or "" for page in decided))
    requirements = _pages(rt, (_named(page, "prd") for page in reviews.values()))
    proposals = _pages(
        rt,
        [
            *(_named(page, "proposal") for page in requirements.values()),
            *(_named(page, "proposal") for page in reviews.values()),
        ],
    )
    for page in decided:
        review = reviews.get(page.parent or "")
        if review is None:
            continue
        requirement = requirements.get(_named(review, "prd"))
        proposal = proposals.get(_named(review, "proposal") or _named(requirement, "proposal"))
        verdict = Verdict("review", page.content.get("kind") == "approve", page.created_at)
        for about in (requirement, proposal):
            if about is not None:
                found[about.id].append(verdict)
        if verdict.good and proposal is not None:
            for reference in proposal.provenance.references:
                found[reference].append(Verdict("review", good=True, at=page.created_at, share=_EVIDENCE))


def _newest(rt: Runtime, kind: str) -> Iterable[Page]:
    pages = rt.store.find(rt.principal, scope=rt.settings.scope, kind=kind, newest_first=True)
    return islice(pages, _NEWEST)


def _pages(rt: Runtime, ids: Iterable[str]) -> dict[str, Page]:
    return rt.store.get_many(rt.principal, [name for name in dict.fromkeys(ids) if name])


def _named(page: Page | None, field: str) -> str:
    found = None if page is None else page.content.get(field)
    return found if isinstance(found, str) else ""
