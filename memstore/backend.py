"""The seam between the contract and a database. The store decides; a back end keeps, finds, and is atomic."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from instar.memstore.faults import Fault
from instar.memstore.pages import Page, PageType, State
from instar.memstore.writes import BatchRecord, JournalEntry

T = TypeVar("T")


class Raced(Exception):
    """Another writer committed in between; nothing was written, the transaction may be tried again."""


@dataclass(frozen=True, slots=True)
class Query:
    """What `scan` and `count` look for. All conditions hold together; None leaves one out."""

    scope: str
    grants: tuple[str, ...]
    kind: str | None = None
    type: PageType | None = None
    state: State | None = None
    tag: str | None = None
    parent: str | None = None
    session: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    alive_at: datetime | None = None
    """Leave out what is expired at this time."""
    expired_by: datetime | None = None
    """Only what is expired at this time."""
    hidden: bool = False
    """Include hidden pages."""
    exact: bool = False
    """Only this scope, nothing below it."""
    newest_first: bool = False
    after: int | None = None
    """Continue behind this sequence number, in the direction of the scan."""
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which lines of the journal or the fault list: behind a sequence number, under the grants, oldest first."""

    grants: tuple[str, ...]
    since: int = 0
    limit: int = 500
    scope: str | None = None
    session: str | None = None


class Pages(Protocol):
    """Reading pages. Ids that do not exist are missing from the answer."""

    def scopes(self, ids: Collection[str]) -> dict[str, str]:
        """The scope of each page."""
        ...

    def heads(self, ids: Collection[str]) -> dict[str, Page]:
        """The last committed version of each page."""
        ...

    def versions(self, page_id: str, number: int | None = None) -> list[Page]:
        """All versions of a page, oldest first, or the one with this number."""
        ...

    def scan(self, query: Query) -> list[Page]:
        """The matching pages in order of their sequence number."""
        ...

    def count(self, query: Query) -> int:
        """How many pages match; `after` and `limit` are not looked at."""
        ...


class Logs(Protocol):
    """Reading what happened."""

    def batch(self, scope: str, key: str) -> BatchRecord | None:
        """The batch that was committed under this key in this scope."""
        ...

    def journal(self, query: LogQuery) -> list[JournalEntry]:
        """Journal lines, oldest first."""
        ...

    def faults(self, query: LogQuery) -> list[Fault]:
        """Faults, oldest first."""
        ...


@dataclass(frozen=True, slots=True)
class Staged:
    """A staged entry as text, waiting to be committed."""

    scope: str
    session: str
    batch: str
    entry: str
    seq: int = 0


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A page that changed: whoever keeps something derived from pages reads it again."""

    seq: int
    page_id: str
    version: int


class Desk(Protocol):
    """Reading what waits, and what was decided."""

    def staged(self, scope: str, session: str | None) -> list[Staged]:
        """Entries that were staged and not committed, oldest first: of a session in this scope, or without one all in
        and below the scope."""
        ...

    def trace(self, run: str) -> list[str]:
        """The decision trace of a run, in order."""
        ...

    def runs(self, limit: int) -> list[tuple[str, str]]:
        """Name and first line of the traces that there are, the newest first."""
        ...

    def outbox(self, since: int, limit: int) -> list[OutboxRow]:
        """Page changes, oldest first."""
        ...

    def cursor(self, consumer: str) -> int:
        """How far a consumer of the outbox has come."""
        ...


class View(Pages, Logs, Desk, Protocol):
    """A consistent view: everything read in it is of one moment."""


class Transaction(View, Protocol):
    """A view that can be changed; all of it or nothing becomes visible when it ends."""

    def put(self, pages: Sequence[Page], batch: str) -> None:
        """Store new versions. A page without a sequence number is new; other versions must follow the last one.

        Raises:
            Raced: another writer was faster: a new page is there already, or other versions came. At the latest when
                the transaction ends.
        """
        ...

    def log(self, entries: Sequence[JournalEntry], batch: BatchRecord | None = None) -> None:
        """Append to the journal; with a batch, remember its key."""
        ...

    def record(self, faults: Sequence[Fault]) -> None:
        """Append to the list of faults."""
        ...

    def stage(self, entries: Sequence[Staged]) -> None:
        """Keep entries without effect."""
        ...

    def unstage(self, seqs: Collection[int]) -> None:
        """Forget staged entries: they were committed, or journalled as rejected."""
        ...

    def hide(self, ids: Collection[str], hidden: bool) -> None:
        """Hide pages, or show them again."""
        ...

    def erase(self, pages: Sequence[Page]) -> None:
        """Overwrite every version of these pages with what the given page holds, and hide them.

        Values of theirs in the journal go too.
        """
        ...

    def blank(self, ids: Collection[str], grants: Collection[str]) -> list[str]:
        """Overwrite values in the journal lines of these ids under the grants; returns the ids that had some."""
        ...

    def drop(self, page_id: str, numbers: Collection[int]) -> None:
        """Delete old versions of a page."""
        ...

    def keep_trace(self, run: str, lines: Sequence[str]) -> None:
        """Append to the decision trace of a run."""
        ...

    def advance(self, consumer: str, through: int) -> None:
        """Remember how far a consumer of the outbox has come; it never goes back."""
        ...


class Backend(Protocol):
    """A database with atomic, durable, isolated transactions."""

    def read(self) -> AbstractContextManager[View]:
        """A consistent view; ends with the block."""
        ...

    def write(self, work: Callable[[Transaction], T]) -> T:
        """What comes of work in a write transaction: its clean end commits durably, an exception rolls back."""
        ...

    def check(self) -> list[str]:
        """What is unsound, in words; empty when all is well."""
        ...

    def close(self) -> None:
        """Give back connections and files. Closing twice is fine."""
        ...
