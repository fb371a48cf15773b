"""Answers that did not count, each a page: who tried what is not lost, and a resumed run asks on where it stopped."""

from __future__ import annotations

from instar.core import records
from instar.core.runtime import Runtime
from instar.memstore import PageDraft, PageType, Provenance, Rejected


def refusals(rt: Runtime, review_id: str) -> list[str]:
    """Why earlier answers to a review did not count, the oldest first."""
    pages = rt.store.find(rt.principal, scope=rt.settings.scope, kind=records.REFUSAL, parent=review_id, exact=True)
    return [str(page.content["why"]) for page in pages]


def refuse(rt: Runtime, review_id: str, why: str) -> None:
    """Keep that an answer did not count. Two processes that refuse the same answer keep it once."""
    number = len(refusals(rt, review_id)) + 1
    page = PageDraft(
        id=f"{records.REFUSAL}-{review_id}.{number}",
        kind=records.REFUSAL,
        type=PageType.EVIDENCE,
        content={"review": review_id, "why": why, "number": number},
        provenance=Provenance(source="review", references=(review_id,)),
        parent=review_id,
    )
    try:
        with rt.store.writeback(rt.principal, scope=rt.settings.scope) as batch:
            batch.append(page)
    except Rejected:
        if rt.store.get(rt.principal, page.id or "") is None:
            raise
