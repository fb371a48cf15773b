"""The back end in this process, for tests and short-lived agents: small, and independent of SQL."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from instar.memstore.backend import LogQuery, OutboxRow, Query, Raced, Staged
from instar.memstore.faults import Fault
from instar.memstore.pages import Page, digest_of
from instar.memstore.scopes import within
from instar.memstore.writes import BatchRecord, JournalEntry

T = TypeVar("T")


@dataclass(slots=True)
class _State:
    """All that is stored. A transaction works on its own lists and hands them over at once."""

    pages: dict[str, list[Page]] = field(default_factory=dict)
    journal: list[JournalEntry] = field(default_factory=list)
    batches: dict[tuple[str, str], BatchRecord] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    staged: dict[int, Staged] = field(default_factory=dict)
    traces: dict[str, list[str]] = field(default_factory=dict)
    outbox: list[OutboxRow] = field(default_factory=list)
    cursors: dict[str, int] = field(default_factory=dict)
    counter: int = 0


class _Transaction:
    """Reads the state; keeps what it writes apart until `apply`."""

    def __init__(self, state: _State) -> None:
        self._state = state
        self._pages: list[Page] = []
        self._journal: list[JournalEntry] = []
        self._batches: list[BatchRecord] = []
        self._faults: list[Fault] = []
        self._later: list[Callable[[], None]] = []
        """Small changes, made in order when the transaction is applied."""

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

    def staged(self, scope: str, session: str | None) -> list[Staged]:
        entries = self._state.staged.values()
        if session is None:
            return [entry for entry in entries if within(entry.scope, scope)]
        return [entry for entry in entries if (entry.scope, entry.session) == (scope, session)]

    def trace(self, run: str) -> list[str]:
        return list(self._state.traces.get(run, ()))

    def runs(self, limit: int) -> list[tuple[str, str]]:
        return [(run, lines[0]) for run, lines in reversed(self._state.traces.items()) if lines][:limit]

    def outbox(self, since: int, limit: int) -> list[OutboxRow]:
        return self._state.outbox[since : since + limit]

    def cursor(self, consumer: str) -> int:
        return self._state.cursors.get(consumer, 0)

    def stage(self, entries: Sequence[Staged]) -> None:
        self._later += [partial(self._stage, entry) for entry in entries]

    def unstage(self, seqs: Collection[int]) -> None:
        self._later += [partial(self._unstage, seq) for seq in seqs]

    def hide(self, ids: Collection[str], hidden: bool) -> None:
        self._later += [partial(self._hide, page_id, hidden) for page_id in ids]

    def erase(self, pages: Sequence[Page]) -> None:
        self._later += [partial(self._erase, page) for page in pages]

    def blank(self, ids: Collection[str], grants: Collection[str]) -> list[str]:
        wanted = frozenset(ids)

        def concerned(line: JournalEntry) -> bool:
            return bool(line.value) and line.page_id in wanted and any(within(line.scope, grant) for grant in grants)

        self._later.append(partial(self._blank, concerned))
        return sorted({line.page_id for line in self._state.journal if concerned(line)})

    def drop(self, page_id: str, numbers: Collection[int]) -> None:
        self._later.append(partial(self._drop, page_id, frozenset(numbers)))

    def keep_trace(self, run: str, lines: Sequence[str]) -> None:
        self._later.append(lambda: self._state.traces.setdefault(run, []).extend(lines))

    def advance(self, consumer: str, through: int) -> None:
        self._later.append(partial(self._advance, consumer, through))

    def put(self, pages: Sequence[Page], batch: str) -> None:
        for page in pages:
            if page.version == 1 and page.id in self._state.pages:
                raise Raced
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
        for page in self._pages:
            self._announce(page.id, page.version)
        for change in self._later:
            change()

    def _stage(self, entry: Staged) -> None:
        self._state.counter += 1
        self._state.staged[self._state.counter] = replace(entry, seq=self._state.counter)

    def _unstage(self, seq: int) -> None:
        self._state.staged.pop(seq, None)

    def _hide(self, page_id: str, hidden: bool) -> None:
        if versions := self._state.pages.get(page_id):
            versions[:] = [replace(page, hidden=hidden) for page in versions]
            self._announce(page_id, 0)

    def _erase(self, blank: Page) -> None:
        versions = self._state.pages[blank.id]
        versions[:] = [replace(blank, version=page.version) for page in versions]
        self._blank(lambda line: line.page_id == blank.id)
        self._announce(blank.id, 0)

    def _blank(self, concerned: Callable[[JournalEntry], bool]) -> None:
        journal = self._state.journal
        journal[:] = [replace(line, value="") if concerned(line) else line for line in journal]

    def _drop(self, page_id: str, numbers: frozenset[int]) -> None:
        versions = self._state.pages[page_id]
        versions[:] = [page for page in versions if page.version not in numbers]

    def _advance(self, consumer: str, through: int) -> None:
        self._state.cursors[consumer] = max(through, self.cursor(consumer))

    def _announce(self, page_id: str, version: int) -> None:
        self._state.outbox.append(OutboxRow(len(self._state.outbox) + 1, page_id, version))

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

    def write(self, work: Callable[[_Transaction], T]) -> T:
        """A transaction: applied at a clean end, forgotten otherwise."""
        with self._lock:
            transaction = _Transaction(self._state)
            done = work(transaction)
            transaction.apply()
            return done

    def check(self) -> list[str]:
        """Pages whose bytes do not match their hash."""
        pages = (page for versions in self._state.pages.values() for page in versions)
        return [f"{page.id} version {page.version}: hash" for page in pages if digest_of(page.full) != page.digest]

    def close(self) -> None:
        """Nothing to give back."""


def matches(page: Page, query: Query) -> bool:
    """Whether a page is one that the query looks for."""
    return (
        (page.scope == query.scope if query.exact else within(page.scope, query.scope))
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
        and (query.expired_by is None or page.expired(query.expired_by))
        and (query.hidden or not page.hidden)
    )


def _granted(scope: str, query: LogQuery) -> bool:
    if query.scope is not None and not within(scope, query.scope):
        return False
    return any(within(scope, grant) for grant in query.grants)
