"""The reading side of the store: every answer is checked against the grants of who asks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from datetime import datetime

from instar.memstore.backend import Backend, LogQuery, Query
from instar.memstore.errors import ScopeDenied, UnresolvedPointer
from instar.memstore.faults import Fault
from instar.memstore.pages import Page, PageType, State, digest_of
from instar.memstore.scopes import Principal
from instar.memstore.trace import Run, run_of
from instar.memstore.writes import JournalEntry

_CHUNK = 500
_RUNS = 10_000
"""So many runs are looked through for those under the grants."""


class PageReader:
    """Reads pages, their history, the journal and the faults."""

    def __init__(self, backend: Backend, clock: Callable[[], datetime]) -> None:
        self._backend, self._clock = backend, clock

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
        exact: bool = False,
    ) -> Iterator[Page]:
        """Pages in and below a scope (`exact`: in it only), in the order of their first commit, or backwards.

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
            exact=exact,
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

    def runs(self, by: Principal, *, limit: int = 50) -> list[Run]:
        """The runs whose decisions were recorded under the grants, the newest first."""
        with self._backend.read() as view:
            known = view.runs(_RUNS)
        runs = [run for name, first in known if (run := run_of(name, first)) is not None and by.may(run.scope)]
        return runs[:limit]

    def trace(self, by: Principal, run: str) -> list[str]:
        """The decision trace of a run, line by line, for `replay`; empty when there is no such run.

        Raises:
            ScopeDenied: the run lies out of grant, or does not say where it lies.
        """
        with self._backend.read() as view:
            lines = view.trace(run)
        if lines:
            whose = run_of(run, lines[0])
            if whose is None or not by.may(whose.scope):
                raise ScopeDenied(by.name, run[:200])
        return lines
