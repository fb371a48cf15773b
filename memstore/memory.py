"""The back end in this process, for tests and short-lived agents: small, and independent of SQL."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from instar.memstore.backend import LogQuery, Query
from instar.memstore.faults import Fault
from instar.memstore.pages import Page, digest_of
from instar.memstore.scopes import within
from instar.memstore.writes import BatchRecord, JournalEntry


@dataclass(slots=True)
class _State:
    """All that is stored. A transaction works on its own lists and hands them over at once."""

    pages: dict[str, list[Page]] = field(default_factory=dict)
    journal: list[JournalEntry] = field(default_factory=list)
    batches: dict[tuple[str, str], BatchRecord] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)


class _Transaction:
    """Reads the state; keeps what it writes apart until `apply`."""

    def __init__(self, state: _State) -> None:
        self._state = state
        self._pages: list[Page] = []
        self._journal: list[JournalEntry] = []
        self._batches: list[BatchRecord] = []
        self._faults: list[Fault] = []

    def scopes(self, ids: Collection[str]) -> dict[str, str]:
        return {page_id: page.scope for page_id, page in self.heads(ids).items()}

    def heads(self, ids: Collection[str]) -> dict[str, Page]:
        return {page_id: self._state.pages[page_id][-1] for page_id in ids if page_id in self._state.pages}

    def versions(self, page_id: str, number: int | None = None) -> list[Page]:
        kept = self._state.pages.get(page_id, [])
        return [page for page in kept if number in (None, page.version)]

    def scan(self, query: Query) -> list[Page]:
        found = sorted(self._matching(query), key=lambda page: page.seq, reverse=query.newest_first)
        if query.after is not None:
            after = query.after
            found = [page for page in found if (page.seq < after if query.newest_first else page.seq > after)]
        return found[: query.limit]

    def count(self, query: Query) -> int:
        return sum(1 for _ in self._matching(query))

    def batch(self, scope: str, key: str) -> BatchRecord | None:
        return self._state.batches.get((scope, key))

    def journal(self, query: LogQuery) -> list[JournalEntry]:
        lines = (line for line in self._state.journal if line.seq > query.since and _granted(line.scope, query))
        return [line for line, _ in zip(lines, range(query.limit), strict=False)]

    def faults(self, query: LogQuery) -> list[Fault]:
        found = (fault for fault in self._state.faults if fault.seq > query.since and _granted(fault.scope, query))
        wanted = (fault for fault in found if query.session in (None, fault.session))
        return [fault for fault, _ in zip(wanted, range(query.limit), strict=False)]

    def put(self, pages: Sequence[Page], batch: str) -> None:
        self._pages += pages

    def log(self, entries: Sequence[JournalEntry], batch: BatchRecord | None = None) -> None:
        self._journal += entries
        if batch is not None and batch.key:
            self._batches.append(batch)

    def record(self, faults: Sequence[Fault]) -> None:
        self._faults += faults

    def apply(self) -> None:
        state = self._state
        for page in self._pages:
            kept = state.pages.setdefault(page.id, [])
            kept.append(replace(page, seq=kept[0].seq if kept else len(state.pages)))
        for line in self._journal:
            state.journal.append(replace(line, seq=len(state.journal) + 1))
        for fault in self._faults:
            state.faults.append(replace(fault, seq=len(state.faults) + 1))
        for batch in self._batches:
            state.batches[batch.scope, batch.key] = batch

    def _matching(self, query: Query) -> Iterator[Page]:
        for versions in self._state.pages.values():
            if matches(versions[-1], query):
                yield versions[-1]


class MemoryBackend:
    """One writer at a time, readers see whole transactions only. Nothing survives `close`."""

    def __init__(self) -> None:
        self._state = _State()
        self._lock = threading.RLock()

    @contextmanager
    def read(self) -> Iterator[_Transaction]:
        """A consistent view: no writer is let in while it is open."""
        with self._lock:
            yield _Transaction(self._state)

    @contextmanager
    def write(self) -> Iterator[_Transaction]:
        """A transaction: applied at a clean end, forgotten otherwise."""
        with self._lock:
            transaction = _Transaction(self._state)
            yield transaction
            transaction.apply()

    def check(self) -> list[str]:
        """Pages whose bytes do not match their hash."""
        pages = (page for versions in self._state.pages.values() for page in versions)
        return [f"{page.id} version {page.version}: hash" for page in pages if digest_of(page.full) != page.digest]

    def close(self) -> None:
        """Nothing to give back."""


def matches(page: Page, query: Query) -> bool:
    """Whether a page is one that the query looks for."""
    return (
        within(page.scope, query.scope)
        and any(within(page.scope, grant) for grant in query.grants)
        and query.kind in (None, page.kind)
        and query.type in (None, page.type)
        and query.state in (None, page.state)
        and query.parent in (None, page.parent)
        and query.session in (None, page.session)
        and (query.tag is None or query.tag in page.tags)
        and (query.since is None or page.created_at >= query.since)
        and (query.until is None or page.created_at < query.until)
        and (query.alive_at is None or not page.expired(query.alive_at))
        and (query.hidden or not page.hidden)
    )


def _granted(scope: str, query: LogQuery) -> bool:
    if query.scope is not None and not within(scope, query.scope):
        return False
    return any(within(scope, grant) for grant in query.grants)
