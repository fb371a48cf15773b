"""Maintenance: forgetting on purpose, and putting in order what is kept. Nothing is lost that was not meant to go."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta

from pydantic import JsonValue

from instar.core.alike import compare_new
from instar.core.maintained import MaintainReport
from instar.core.progress import report
from instar.core.recall import recall_of
from instar.core.runtime import Runtime
from instar.memstore import Page, PageDraft, PageType, Pin, Provenance, Rejected
from instar.memstore.backend import Query
from instar.memstore.compress import ExtractiveCompressor
from instar.memstore.maintenance import is_erased
from instar.memstore.recall import EmbedderFailed, IndexFailed, IndexHeld, Relation
from instar.memstore.recall.documents import micros
from instar.memstore.recall.likeness import Found

SUMMARY = "summary"
CONSOLIDATED = ("message", "tool-call")
"""Kinds of an agent's live session that become one summary in the end. Steps of imported sessions are evidence that
skills are learned from; they only leave the index."""
BUSY = "another process maintains this home at this moment; nothing was done here"
_FEWEST = 3
_LISTED = 50
_EXCERPT = 6_000


def maintain(rt: Runtime, *, now: datetime | None = None, seconds: float | None = None) -> MaintainReport:
    """Do all of it, in an order in which no step undoes another; a run that was cut short is simply repeated.

    The index is brought up to date for at most so many seconds; what is left then is named, and done by the next run
    or, little by little, by whoever searches. The rest is always done to its end.

    There is one at a time in a home; a second one changes nothing, and its report says so.

    Raises:
        MemstoreError: the store cannot be read or written.
    """
    now = now or datetime.now(UTC)
    if rt.dry_run:
        return _maintain(rt, now, seconds)
    with _alone(rt) as first:
        return _maintain(rt, now, seconds) if first else MaintainReport(trouble=[BUSY])


def preview(rt: Runtime, *, now: datetime | None = None) -> MaintainReport:
    """What maintenance would do by time: what is past its time, and sessions to be summarised. Nothing is changed.

    What says the same or otherwise is only known when it is looked for, which brings the index up to date.

    Raises:
        MemstoreError: the store cannot be read.
    """
    now = now or datetime.now(UTC)
    cut = now - timedelta(days=rt.settings.index_days)
    with rt.store.snapshot() as view:
        pages = view.scan(Query(rt.settings.scope, rt.principal.grants, expired_by=now, hidden=True))
    expired = sum(page.pin is not Pin.HARD and not is_erased(page) for page in pages)
    due = [list(found) for *_, found in _ended(rt, cut)]
    return MaintainReport(
        expired=expired, summaries=len(due), archived=sum(map(len, due)), details_before=cut, dry_run=True
    )


@contextmanager
def _alone(rt: Runtime) -> Iterator[bool]:
    """Whether nobody else maintains this home at this moment; the system gives the place back, whatever happens."""
    with (rt.settings.home / "maintenance.lock").open("a") as place:
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _maintain(rt: Runtime, now: datetime, seconds: float | None) -> MaintainReport:
    scope = rt.settings.scope
    trouble: list[str] = []
    report("maintain", note="what is past its time")
    expired = rt.store.maintenance(rt.principal).erase_expired(scope)
    cut = now - timedelta(days=rt.settings.index_days)
    with recall_of(rt) as recall:
        with _noted(trouble):  # before anything old comes in, only to be taken out again
            recall.upkeep.retire(micros(cut))
            recall.upkeep.fade(now)
        report("maintain", note="the index")
        end = None if seconds is None else time.monotonic() + seconds
        with _noted(trouble):
            recall.catch_up(seconds=seconds)
        report("maintain", note="what says the same, or otherwise")
        compared, found = 0, list[Found]()
        with _noted(trouble):
            compared, found = compare_new(rt, recall)
        report("maintain", note="old sessions")
        summaries, archived = _consolidate(rt, cut)
        with _noted(trouble):
            recall.catch_up(seconds=None if end is None else max(end - time.monotonic(), 0.0))
            if seconds is not None and not recall.state().lag:
                recall.catch_up()  # nothing is left: only as a whole is the index looked over for damage
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


@contextmanager
def _noted(trouble: list[str]) -> Iterator[None]:
    """Go on with the rest where the index, or who makes vectors, fails."""
    try:
        yield
    except (IndexHeld, IndexFailed, EmbedderFailed) as error:
        trouble.append(str(error))


def _consolidate(rt: Runtime, cut: datetime) -> tuple[int, int]:
    """Put one summary in the place of each live session that ended before a time; returns summaries and pages."""
    summaries = archived = 0
    for scope, session, pages in _ended(rt, cut):
        with suppress(Rejected):  # somebody goes on with this session at this moment: another night
            _summarise(rt, scope, session, pages)
            summaries += 1
            archived += len(pages)
    return summaries, archived


def _ended(rt: Runtime, cut: datetime) -> Iterator[tuple[str, str, list[Page]]]:
    """Live sessions that ended before a time, with their pages in order."""
    sessions = dict.fromkeys(
        (page.scope, page.session)
        for kind in CONSOLIDATED
        for page in rt.store.find(rt.principal, scope=rt.settings.scope, kind=kind, until=cut)
        if page.session
    )
    for scope, session in sessions:
        newest = rt.store.find(rt.principal, scope=scope, session=session, limit=1, newest_first=True)
        if any(page.created_at >= cut for page in newest):
            continue
        found = rt.store.find(rt.principal, scope=scope, session=session, exact=True)
        pages = [page for page in found if page.kind in CONSOLIDATED]
        if len(pages) >= _FEWEST:
            yield scope, session, pages


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
