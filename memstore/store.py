"""The store: what callers hold. It decides by the contract; the back end behind it only keeps."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Self, TypeVar

from instar.memstore.backend import Backend, LogQuery, Query, Raced, Transaction
from instar.memstore.door import Door
from instar.memstore.errors import Rejected, ScopeDenied, StoreFailed, UnresolvedPointer
from instar.memstore.faults import Fault
from instar.memstore.pages import Page, PageType, State, digest_of
from instar.memstore.redaction import Redactor, default_redactor
from instar.memstore.represent import Representer
from instar.memstore.scopes import Principal, check_scope
from instar.memstore.writeback import Writeback, commit
from instar.memstore.writes import JournalEntry, Limits, ReasonCode, Receipt, Rejection

_CHUNK = 500
_ATTEMPTS = 50
T = TypeVar("T")


def utc_now() -> datetime:
    """The time of day, with its zone."""
    return datetime.now(UTC)


class Store:
    """Typed, versioned pages that cannot be lost, shrunk or overwritten silently. Made by `open_store`."""

    def __init__(
        self,
        backend: Backend,
        *,
        redactor: Redactor | None = None,
        representer: Representer | None = None,
        limits: Limits | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._backend = backend
        self._redactor = redactor or default_redactor()
        self._representer = representer or Representer()
        self._limits = limits or Limits()
        self._clock = clock

    # Writing

    @contextmanager
    def writeback(self, by: Principal, *, scope: str, key: str | None = None) -> Iterator[Writeback]:
        """Stage inside the block; a clean exit validates and commits all of it or nothing.

        With a `key` the batch is idempotent: the same batch under the same key and scope is committed once.
        An exception from inside the block abandons the batch.

        Raises:
            InvalidRequest: the scope is malformed.
            Rejected: at least one entry did not pass; all reasons are named and journalled.
            StoreUnavailable: the batch is not committed (see the subclasses).
        """
        check_scope(scope)
        batch = f"batch-{secrets.token_hex(10)}"
        writeback = Writeback(batch, Door(scope, self._redactor, self._representer, self._limits), key)
        try:
            yield writeback
        finally:
            writeback.shut()
        writeback.settle(self._commit(by, writeback))

    def _commit(self, by: Principal, writeback: Writeback) -> Receipt:
        if not writeback.entries:
            return Receipt(writeback.id)
        if len(writeback.entries) > self._limits.batch_entries:
            detail = f"{len(writeback.entries)} entries, the limit is {self._limits.batch_entries}"
            first = writeback.entries[0]
            raise Rejected(writeback.id, [Rejection(first.page_id, first.op, ReasonCode.TOO_LARGE, detail)])
        request = writeback.request(by)
        result = self._transact(
            lambda tx: commit(tx, request, now=self._clock(), representer=self._representer, limits=self._limits)
        )
        if isinstance(result, list):
            raise Rejected(writeback.id, result)
        return result

    def _transact(self, work: Callable[[Transaction], T]) -> T:
        for _ in range(_ATTEMPTS):
            try:
                with self._backend.write() as tx:
                    return work(tx)
            except Raced:
                continue
        raise StoreFailed("store", f"other writers were faster {_ATTEMPTS} times")

    # Reading

    def get(self, by: Principal, page_id: str, version: int | None = None) -> Page | None:
        """The last committed version of a page or the one asked for, hidden and expired too; None: no such page.

        Raises:
            ScopeDenied: it exists out of grant.
        """
        with self._backend.read() as view:
            found = view.versions(page_id, version) if version is not None else list(view.heads([page_id]).values())
        if not found:
            return None
        if not by.may(found[0].scope):
            raise ScopeDenied(by.name, found[0].scope)
        return found[0]

    def get_many(self, by: Principal, ids: Collection[str]) -> dict[str, Page]:
        """The last committed version of each page that exists, in the order asked for.

        Raises:
            ScopeDenied: one of them exists out of grant.
        """
        with self._backend.read() as view:
            heads = view.heads(ids)
        for page in heads.values():
            if not by.may(page.scope):
                raise ScopeDenied(by.name, page.scope)
        return {page_id: heads[page_id] for page_id in ids if page_id in heads}

    def resolve(self, by: Principal, handle: str) -> Page:
        """The page version behind a pointer's handle, its bytes checked against the hash.

        Raises:
            UnresolvedPointer: no such version, or other bytes than those the handle was made for.
            ScopeDenied: it exists out of grant.
        """
        head, _, mark = handle.rpartition("#")
        page_id, _, number = head.rpartition("@")
        if not page_id or not number.isdecimal() or len(number) > 9:
            raise UnresolvedPointer(handle[:200], "is not a handle")
        page = self.get(by, page_id, int(number))
        if page is None:
            raise UnresolvedPointer(handle, "there is no such page version")
        if digest_of(page.full) != page.digest or not mark or not page.digest.startswith(mark):
            raise UnresolvedPointer(handle, "the bytes are not those the handle was made for")
        return page

    def find(
        self,
        by: Principal,
        *,
        scope: str,
        kind: str | None = None,
        type: PageType | None = None,  # noqa: A002
        state: State | None = None,
        tag: str | None = None,
        parent: str | None = None,
        session: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
        newest_first: bool = False,
        hidden: bool = False,
        expired: bool = False,
    ) -> Iterator[Page]:
        """Pages in and below a scope, in the order of their first commit, or backwards.

        `since` (inclusive) and `until` (exclusive) look at `created_at`. Hidden and expired pages are left out
        unless asked for. Pages stream in short reads of their own; a page committed meanwhile may appear.

        Raises:
            InvalidRequest: the scope is malformed.
            ScopeDenied: no grant covers the whole scope. Raised here, not when the first page is taken.
        """
        by.require(scope)
        query = Query(
            scope=scope,
            grants=by.grants,
            kind=kind,
            type=type,
            state=state,
            tag=tag,
            parent=parent,
            session=session,
            since=since,
            until=until,
            alive_at=None if expired else self._clock(),
            hidden=hidden,
            newest_first=newest_first,
        )
        return self._stream(query, limit)

    def _stream(self, query: Query, limit: int | None) -> Iterator[Page]:
        left = limit
        while left is None or left > 0:
            size = _CHUNK if left is None else min(left, _CHUNK)
            with self._backend.read() as view:
                pages = view.scan(replace(query, limit=size))
            yield from pages
            if len(pages) < size:
                return
            query = replace(query, after=pages[-1].seq)
            left = None if left is None else left - len(pages)

    def count(
        self,
        by: Principal,
        *,
        scope: str,
        kind: str | None = None,
        type: PageType | None = None,  # noqa: A002
        state: State | None = None,
        tag: str | None = None,
        parent: str | None = None,
        session: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        hidden: bool = False,
        expired: bool = False,
    ) -> int:
        """How many pages `find` would give.

        Raises:
            InvalidRequest: the scope is malformed.
            ScopeDenied: no grant covers the whole scope.
        """
        by.require(scope)
        query = Query(
            scope=scope,
            grants=by.grants,
            kind=kind,
            type=type,
            state=state,
            tag=tag,
            parent=parent,
            session=session,
            since=since,
            until=until,
            alive_at=None if expired else self._clock(),
            hidden=hidden,
        )
        with self._backend.read() as view:
            return view.count(query)

    def history(self, by: Principal, page_id: str) -> list[Page]:
        """All versions of a page that retention kept, oldest first; empty when there is no such page.

        Raises:
            ScopeDenied: it exists out of grant.
        """
        with self._backend.read() as view:
            versions = view.versions(page_id)
        if versions and not by.may(versions[0].scope):
            raise ScopeDenied(by.name, versions[0].scope)
        return versions

    def journal(self, by: Principal, *, since: int = 0, limit: int | None = None) -> Iterator[JournalEntry]:
        """Every entry that was staged, committed or rejected under the grants, oldest first, after `since`."""
        left = limit
        while left is None or left > 0:
            size = _CHUNK if left is None else min(left, _CHUNK)
            with self._backend.read() as view:
                lines = view.journal(LogQuery(by.grants, since, size))
            yield from lines
            if len(lines) < size:
                return
            since = lines[-1].seq
            left = None if left is None else left - len(lines)

    def faults(
        self, by: Principal, *, scope: str | None = None, session: str | None = None, since: int = 0
    ) -> Iterator[Fault]:
        """Faults under the grants, oldest first.

        Raises:
            InvalidRequest: the scope is malformed.
            ScopeDenied: no grant covers the scope asked for.
        """
        if scope is not None:
            by.require(scope)
        return self._stream_faults(LogQuery(by.grants, since, _CHUNK, scope, session))

    def _stream_faults(self, query: LogQuery) -> Iterator[Fault]:
        while True:
            with self._backend.read() as view:
                found = view.faults(query)
            yield from found
            if len(found) < query.limit:
                return
            query = replace(query, since=found[-1].seq)

    # Care

    def check(self) -> list[str]:
        """What is unsound in the store, in words; empty when all is well.

        Raises:
            StoreUnavailable: the store cannot even be read.
        """
        return self._backend.check()

    def close(self) -> None:
        """Give back connections and files. Closing twice is fine."""
        self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
