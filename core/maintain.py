"""Maintenance: forgetting on purpose, and putting in order what is kept. Nothing is lost that was not meant to go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from pydantic import BaseModel, ConfigDict, JsonValue

from instar.core import records
from instar.core.progress import report
from instar.core.recall import recall_of
from instar.core.runtime import Runtime
from instar.memstore import Page, PageDraft, PageType, Provenance, Rejected
from instar.memstore.compress import ExtractiveCompressor
from instar.memstore.recall import EmbedderFailed, IndexFailed, IndexHeld, Link, Recall, Relation, link_draft
from instar.memstore.recall.likeness import Found, candidates, compare
from instar.memstore.recall.profile import PROFILE

SUMMARY = "summary"
COMPARED = (records.MEMORY, PROFILE, "note")
"""Kinds whose pages are compared with each other: statements, not records of what happened."""
CONSOLIDATED = ("message", "tool-call")
"""Kinds of an agent's live session that become one summary in the end. Steps of imported sessions are evidence that
skills are learned from; they only leave the index."""
_CURSOR = "maintenance"
_FEWEST = 3
_LISTED = 50
_EXCERPT = 6_000


class MaintainReport(BaseModel):
    """What a run of maintenance did."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    expired: int = 0
    """Pages past their time, whose content was erased."""
    compared: int = 0
    same: int = 0
    """Links between pages that say the same."""
    contradictions: list[str] = []
    """The first of the new contradictions, as `newer: older`."""
    contradictions_found: int = 0
    summaries: int = 0
    archived: int = 0
    """Pages that a summary stands for now; they stay readable by id."""
    details_before: datetime | None = None
    """The single steps from before this time are not in the index."""
    indexed: int = 0
    vectors: int = 0
    index_lag: int = 0
    trouble: list[str] = []
    """What could not be done, and why; the next run tries again."""


def maintain(rt: Runtime, *, now: datetime | None = None) -> MaintainReport:
    """Do all of it, in an order in which no step undoes another; a run that was cut short is simply repeated.

    Raises:
        MemstoreError: the store cannot be read or written.
    """
    now = now or datetime.now(UTC)
    scope = rt.settings.scope
    trouble: list[str] = []
    report("maintain", note="what is past its time")
    expired = rt.store.maintenance(rt.principal).erase_expired(scope)
    with recall_of(rt) as recall:
        _catch_up(recall, trouble)
        report("maintain", note="what says the same, or otherwise")
        compared, found = _compare(rt, recall, trouble)
        report("maintain", note="old sessions")
        cut = now - timedelta(days=rt.settings.index_days)
        summaries, archived = _consolidate(rt, cut)
        with suppress(IndexHeld):  # its owner does it
            recall.upkeep.retire(int(cut.timestamp() * 1_000_000))
        _catch_up(recall, trouble)
        state = recall.state()
    against = [one for one in found if one.link.relation is Relation.CONTRADICTS]
    report("maintain", done=1, total=1, note=f"{len(found)} links, {summaries} summaries")
    return MaintainReport(
        expired=len(expired),
        compared=compared,
        same=len(found) - len(against),
        contradictions=[f"{one.link.source}: {one.link.target}" for one in against[:_LISTED]],
        contradictions_found=len(against),
        summaries=summaries,
        archived=archived,
        details_before=cut,
        indexed=state.pages,
        vectors=state.vectors,
        index_lag=max(state.lag, state.vector_lag),
        trouble=list(dict.fromkeys([*trouble, *state.reasons])),
    )


def _catch_up(recall: Recall, trouble: list[str]) -> None:
    try:
        recall.catch_up()
    except (IndexHeld, IndexFailed, EmbedderFailed) as error:
        trouble.append(str(error))


def _compare(rt: Runtime, recall: Recall, trouble: list[str]) -> tuple[int, list[Found]]:
    """Compare what is new since the last run with what is like it; returns how many pages, and the new links."""
    since = rt.store.cursor(_CURSOR)
    compared, found = 0, list[Found]()
    try:
        for page in _changed(rt, since):
            compared += 1
            names = recall.upkeep.words.names(candidates(page, recall.upkeep.words))
            others = [
                other
                for other in rt.store.get_many(rt.principal, list(names.values())).values()
                if not other.hidden and not other.expired(datetime.now(UTC))
            ]
            for one in compare(page, others, recall.upkeep.serving):
                if _link(rt, page.scope, one.link, one.why):
                    found.append(one)
    except (IndexFailed, EmbedderFailed) as error:
        trouble.append(f"not all pages were compared: {error}")
        return compared, found
    return compared, found


def _changed(rt: Runtime, since: int) -> Iterator[Page]:
    """Statements that changed behind a place in the outbox; the place is remembered when all of a batch were used."""
    while rows := rt.store.outbox(since=since, limit=500):
        ours = list(dict.fromkeys(row.page_id for row in rows))
        with rt.store.snapshot() as view:
            pages = [page for page in view.heads(ours).values() if rt.principal.may(page.scope)]
        yield from (page for page in pages if page.kind in COMPARED and not page.hidden)
        since = rows[-1].seq
        rt.store.advance(_CURSOR, since)


def _link(rt: Runtime, scope: str, link: Link, why: str) -> bool:
    """Write a link, once; False when it was there."""
    draft = link_draft(link, why)
    if rt.store.get(rt.principal, draft.id or "") is not None:
        return False
    with rt.store.writeback(rt.principal, scope=scope) as batch:
        batch.append(draft)
    return True


def _consolidate(rt: Runtime, cut: datetime) -> tuple[int, int]:
    """Put one summary in the place of each live session that ended before a time; returns summaries and pages."""
    sessions: dict[tuple[str, str], list[Page]] = {}
    for kind in CONSOLIDATED:
        for page in rt.store.find(rt.principal, scope=rt.settings.scope, kind=kind, until=cut):
            if page.session:
                sessions.setdefault((page.scope, page.session), []).append(page)
    summaries = archived = 0
    for (scope, session), pages in sessions.items():
        newest = rt.store.find(rt.principal, scope=scope, session=session, limit=1, newest_first=True)
        if len(pages) < _FEWEST or any(page.created_at >= cut for page in newest):
            continue
        ordered = sorted(pages, key=lambda page: page.seq)
        with suppress(Rejected):  # somebody goes on with this session at this moment: another night
            _summarise(rt, scope, session, ordered)
            summaries += 1
            archived += len(ordered)
    return summaries, archived


def _summarise(rt: Runtime, scope: str, session: str, pages: list[Page]) -> None:
    """Write the summary first and archive then: what is cut off in between is found twice, never not at all."""
    said = "\n".join(page.text or page.forms.structured for page in pages)
    text = ExtractiveCompressor().compress(said[:_EXCERPT])
    content: dict[str, JsonValue] = {
        "session": session,
        "pages": len(pages),
        "first": pages[0].created_at.isoformat(),
        "last": pages[-1].created_at.isoformat(),
    }
    draft = PageDraft(
        kind=SUMMARY,
        type=PageType.CONVERSATION,
        content=content,
        text=text,
        id=f"summary-{session}-{pages[-1].seq}"[:200],
        provenance=Provenance("maintenance", tuple(page.id for page in pages)),
        importance=max(page.importance for page in pages),
        tags=tuple(dict.fromkeys(tag for page in pages for tag in page.tags))[:32],
    )
    if rt.store.get(rt.principal, draft.id or "") is None:
        with rt.store.writeback(rt.principal, scope=scope) as batch:
            batch.append(draft)
    rt.store.maintenance(rt.principal).archive([page.id for page in pages], reason=f"summarised by {draft.id}")
