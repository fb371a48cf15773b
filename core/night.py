"""Nights: what is new since the last successful one, remembered so that each session counts once, whatever is killed.

A night is one page. It is opened before any work, and closed by its result; a page that is still open belongs to a
night that was cut off, and is continued under the same number. Its window is no span of time: it is the stretch of
the store's own change log between the end of the last successful night and now. So neither an outage nor a clock
that jumps can leave a session out or count it twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, JsonValue

from instar.core.build import Built
from instar.core.errors import NightFailed, NightRunning
from instar.core.ingest import IngestReport
from instar.core.maintained import MaintainReport
from instar.core.runtime import Runtime
from instar.memstore import Change, Page, PageDraft, PageType, Provenance, Rejected, State

NIGHT = "night"
MAX_ATTEMPTS = 5
"""A night that was cut off so often is given up, with its reason, instead of being begun for ever."""
CHUNK = 5_000


class NightState(StrEnum):
    """Where a night stands."""

    OPEN = "open"
    """It runs, or was cut off and will be continued."""
    DONE = "done"
    QUIET = "quiet"
    """Nothing had changed since the last successful night."""
    FAILED = "failed"
    """It was given up; what it should have looked at belongs to the next one."""


SUCCESSFUL = (NightState.DONE, NightState.QUIET)
_PAGE_STATE = {
    NightState.OPEN: State.PENDING,
    NightState.DONE: State.SUCCESS,
    NightState.QUIET: State.SUCCESS,
    NightState.FAILED: State.ERROR,
}


class Outcome(BaseModel):
    """One draft of a night and what became of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    skill: str
    version: str
    prd: str
    draft: str
    gates: str
    verdict: str
    review: str
    decided: str

    @classmethod
    def of(cls, built: Built, prd: str) -> Outcome:
        """What a night remembers of a draft."""
        kept = {name: getattr(built, name) for name in ("skill", "version", "draft", "gates", "review", "decided")}
        return cls(prd=prd, verdict=built.verdict.value, **kept)


class Night(BaseModel):
    """One night, as its page says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    number: int
    state: NightState = NightState.OPEN
    since: int
    """Where in the store's change log its window begins: the end of the last successful night."""
    through: int = 0
    """Where its window ends; 0 until it was determined."""
    opened_at: datetime
    closed_at: datetime | None = None
    attempts: int = 1
    run: str = ""
    """The flow run of the last attempt."""
    reason: str = ""
    """Why it failed, in one line."""
    ingest: IngestReport | None = None
    sessions: int = 0
    """Sessions that are new, or changed, in its window."""
    reflection: str = ""
    proposals: int = 0
    drafts: list[Outcome] = []
    retirements: list[str] = []
    """Reviews that ask whether a skill should go."""
    not_built: dict[str, str] = {}
    asked: dict[str, str] = {}
    """The page of the run that asks about each review, where a server shows one."""
    maintenance: MaintainReport | None = None
    """What was forgotten and put in order; a failure of that is in here, and does not fail the night."""

    @property
    def finished(self) -> bool:
        """Whether its window is settled."""
        return self.state in SUCCESSFUL


def open_night(rt: Runtime, *, run: str, now: datetime) -> Night:
    """Continue the night that was cut off, or begin the next one.

    Raises:
        NightFailed: it was cut off too often. It is closed as failed; the next call begins a new one.
        MemstoreError: the store cannot be read or written.
    """
    page = next(rt.store.find(rt.principal, scope=rt.settings.scope, kind=NIGHT, newest_first=True, exact=True), None)
    last = None if page is None else read_night(page)
    if last is not None and page is not None and last.state is NightState.OPEN:
        if last.attempts >= MAX_ATTEMPTS:
            reason = f"it was cut off {last.attempts} times; the log of its last run says more: {last.run or 'none'}"
            close_night(rt, last.model_copy(update={"state": NightState.FAILED, "reason": reason}), now=now)
            raise NightFailed(f"Night {last.number} is given up: {reason}", "`instar night` begins a new one")
        return _store(rt, page, last.model_copy(update={"attempts": last.attempts + 1, "run": run}))
    number = 1 if last is None else last.number + 1
    name = f"{NIGHT}-{rt.settings.scope.replace('/', '.')}-{number:06d}"
    night = Night(id=name, number=number, since=settled_through(rt), opened_at=now, run=run)
    try:
        with rt.store.writeback(rt.principal, scope=rt.settings.scope) as batch:
            batch.append(
                PageDraft(
                    id=night.id,
                    kind=NIGHT,
                    type=PageType.EVIDENCE,
                    content=_content(night),
                    state=State.PENDING,
                    provenance=Provenance(source="nightly"),
                )
            )
    except Rejected:
        if rt.store.get(rt.principal, night.id) is None:
            raise
        # Another process began the same night at this moment; both do the same work, which is stored once.
        return open_night(rt, run=run, now=now)
    return night


def keep_night(rt: Runtime, night: Night, *, text: str = "") -> Night:
    """Store how far a night has come.

    Raises:
        NightRunning: another process took this night over; what this one knows is out of date.
        MemstoreError: the store cannot be written.
    """
    page = rt.store.get(rt.principal, night.id)
    if page is None or page.content["attempts"] != night.attempts:
        raise NightRunning(f"Night {night.number} was taken over by another run", "`instar status` shows which")
    return _store(rt, page, night, text)


def _store(rt: Runtime, page: Page, night: Night, text: str = "") -> Night:
    with rt.store.writeback(rt.principal, scope=rt.settings.scope) as batch:
        change = Change(state=_PAGE_STATE[night.state])
        batch.replace(night.id, _content(night), expect=page.version, text=text or None, change=change)
    return night


def close_night(rt: Runtime, night: Night, *, now: datetime, text: str = "") -> Night:
    """Store the result of a night; from here on its window is settled, or belongs to the next night.

    Raises:
        NightRunning: another process took this night over.
        MemstoreError: the store cannot be written; the night is still open, and will be continued.
    """
    return keep_night(rt, night.model_copy(update={"closed_at": now}), text=text)


def window_of(rt: Runtime, night: Night) -> tuple[set[str], int]:
    """The sessions that are new or changed since the last successful night, and where the change log ends now.

    A person's feedback on a session counts as a change of it.
    """
    changed: set[str] = set()
    through = night.since
    while rows := rt.store.outbox(since=through, limit=CHUNK):
        changed.update(row.page_id for row in rows if _tells(row.page_id))
        through = rows[-1].seq
    with rt.store.snapshot() as view:
        scopes = view.scopes(changed)
    return {page_id for page_id, scope in scopes.items() if rt.principal.may(scope)}, through


def nights(rt: Runtime) -> Iterator[Night]:
    """All nights of the scope, the last first."""
    pages = rt.store.find(rt.principal, scope=rt.settings.scope, kind=NIGHT, newest_first=True, exact=True)
    return (read_night(page) for page in pages)


def settled_through(rt: Runtime) -> int:
    """Where the window of the last successful night ended; 0 before the first."""
    return next((night.through for night in nights(rt) if night.finished), 0)


def read_night(page: Page) -> Night:
    """A night from its page."""
    return Night.model_validate({"id": page.id} | dict(page.content))


def _tells(page_id: str) -> bool:
    """Whether a page is a session or a word about one; steps follow their session and need no look of their own."""
    return (page_id.startswith("session-") and "." not in page_id) or page_id.startswith("feedback-")


def _content(night: Night) -> dict[str, JsonValue]:
    content: dict[str, JsonValue] = night.model_dump(mode="json", exclude={"id"})
    return content
