"""The store: what callers hold. It decides by the contract; the back end behind it only keeps."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from types import TracebackType
from typing import BinaryIO, Self, TypeVar

from instar.memstore.backend import Backend, OutboxRow, Raced, Transaction, View
from instar.memstore.door import Door
from instar.memstore.errors import Rejected, StoreFailed, rejected
from instar.memstore.faults import Fault
from instar.memstore.maintenance import Maintenance
from instar.memstore.reading import PageReader
from instar.memstore.redaction import Redactor, default_redactor
from instar.memstore.represent import Representer
from instar.memstore.rollback import Rollback
from instar.memstore.scopes import Principal, check_scope
from instar.memstore.staging import Desk, Flushed
from instar.memstore.transfer import Imported, Intake, read_lines, write_pages
from instar.memstore.writeback import Writeback, commit, token
from instar.memstore.writes import Limits, ReasonCode, Receipt, Rejection

_ATTEMPTS = 50
T = TypeVar("T")


def utc_now() -> datetime:
    """The time of day, with its zone."""
    return datetime.now(UTC)


class Store(PageReader):
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
        super().__init__(backend, clock)
        self._redactor = redactor or default_redactor()
        self._representer = representer or Representer()
        self._limits = limits or Limits()

    # Writing

    def writeback(self, by: Principal, *, scope: str, key: str | None = None) -> AbstractContextManager[Writeback]:
        """Stage inside the block; a clean exit validates and commits all of it or nothing.

        With a `key` the batch is idempotent: the same batch under the same key and scope is committed once.
        An exception from inside the block abandons the batch.

        Raises:
            InvalidRequest: the scope is malformed.
            Rejected: at least one entry did not pass; all reasons are named and journalled.
            StoreUnavailable: the batch is not committed (see the subclasses).
        """
        return self._batch(scope, key, lambda batch: batch.settle(self._commit(by, batch)))

    def _batch(self, scope: str, key: str | None, end: Callable[[Writeback], None]) -> Writeback:
        check_scope(scope)
        return Writeback(f"batch-{token(10)}", Door(scope, self._redactor, self._representer, self._limits), key, end)

    def _commit(self, by: Principal, writeback: Writeback) -> Receipt:
        if not writeback.entries:
            return Receipt(writeback.id)
        if len(writeback.entries) > self._limits.batch_entries:
            detail = f"{len(writeback.entries)} entries, the limit is {self._limits.batch_entries}"
            first = writeback.entries[0]
            raise Rejected(writeback.id, [Rejection(first.page_id, first.op, ReasonCode.TOO_LARGE, detail)])
        request = writeback.request(by)
        trusting = True  # nearly always a page that is appended is new

        def work(tx: Transaction) -> Receipt | list[Rejection]:
            nonlocal trusting
            trusted, trusting = trusting, False
            return commit(
                tx,
                request,
                now=self._clock(),
                representer=self._representer,
                limits=self._limits,
                trusting=trusted,
            )

        result = self._transact(work)
        if isinstance(result, list):
            raise rejected(writeback.id, result)
        return result

    def staging(self, by: Principal, *, scope: str, session: str) -> AbstractContextManager[Writeback]:
        """As `writeback`, but a clean exit only makes the entries durable; `flush` gives them their effect.

        Raises:
            InvalidRequest: the scope is malformed.
            Rejected: an entry could not be committed as things are now; none of the batch was staged.
            StoreUnavailable: nothing was staged.
        """
        return self._batch(scope, None, lambda batch: self._stage(by, scope, session, batch))

    def _stage(self, by: Principal, scope: str, session: str, writeback: Writeback) -> None:
        if not writeback.entries:
            return
        request, desk = writeback.request(by), self._desk(by, scope, session)
        pages, rejections = self._transact(lambda tx: desk.stage(tx, request, self._clock()))
        if rejections:
            raise rejected(writeback.id, rejections)
        writeback.preview = pages

    def flush(self, by: Principal, *, scope: str, session: str, run: str = "", trace: Sequence[str] = ()) -> Flushed:
        """Commit what a session staged, in one transaction; trace lines of a run go with it.

        What became unsound since it was staged is in the result and, with its value, in the journal.

        Raises:
            ScopeDenied: no grant covers the scope; everything staged is still staged.
            StoreUnavailable: everything staged is still staged.
        """
        by.require(scope)
        desk, batch = self._desk(by, scope, session), f"batch-{token(10)}"

        def work(tx: Transaction) -> Flushed:
            flushed = desk.flush(tx, batch, self._clock())
            tx.keep_trace(run, trace)
            return flushed

        return self._transact(work)

    def record(self, by: Principal, faults: Sequence[Fault]) -> None:
        """Keep faults.

        Raises:
            ScopeDenied: one of them lies out of grant.
        """
        for fault in faults:
            by.require(fault.scope)
        now = self._clock()
        self._transact(lambda tx: tx.record([replace(fault, at=fault.at or now) for fault in faults]))

    def rollback(self, by: Principal, *, scope: str, session: str, versions: Mapping[str, int]) -> Receipt:
        """Bring the pages of a session back to these versions; pages that are not named are hidden.

        An older content becomes a new version, nothing is deleted, and both can be undone.

        Raises:
            ScopeDenied: no grant covers the scope.
            StoreUnavailable: nothing was changed.
        """
        by.require(scope)
        back = Rollback(by, scope, session, versions, self._representer)
        batch = f"batch-{token(10)}"
        return self._transact(lambda tx: back.run(tx, batch, self._clock()))

    # The outbox

    def outbox(self, *, since: int = 0, limit: int = 500) -> list[OutboxRow]:
        """Changes of pages in all scopes, oldest first: for the one process that keeps an index. Holds ids only."""
        with self._backend.read() as view:
            return view.outbox(since, limit)

    @contextmanager
    def snapshot(self) -> Iterator[View]:
        """A consistent view of all scopes: for what keeps something derived beside the store, and checks the grants
        of whoever asks it by itself."""
        with self._backend.read() as view:
            yield view

    def cursor(self, consumer: str) -> int:
        """How far a consumer of the outbox has come."""
        with self._backend.read() as view:
            return view.cursor(consumer)

    def advance(self, consumer: str, through: int) -> None:
        """Remember how far a consumer of the outbox has come. It never goes back."""
        self._transact(lambda tx: tx.advance(consumer, through))

    def _desk(self, by: Principal, scope: str, session: str) -> Desk:
        return Desk(by, scope, session, self._representer, self._limits)

    def _transact(self, work: Callable[[Transaction], T]) -> T:
        for attempt in range(_ATTEMPTS):
            try:
                return self._backend.write(work)
            except Raced:
                time.sleep(random.uniform(0, 0.002 * attempt))  # noqa: S311  (so that two do not meet again)
        raise StoreFailed("store", f"other writers were faster {_ATTEMPTS} times")

    # Care

    def check(self) -> list[str]:
        """What is unsound in the store, in words; empty when all is well.

        Raises:
            StoreUnavailable: the store cannot even be read.
        """
        return self._backend.check()

    def maintenance(self, by: Principal) -> Maintenance:
        """The second, privileged door: archive, restore, erase, forget. Nothing else deletes."""
        return Maintenance(self._backend, by, self._clock)

    def export_pages(self, by: Principal, *, scope: str, file: BinaryIO) -> int:
        """Write all pages in and below a scope, with their history, hidden and expired ones too; returns how many.

        Raises:
            ScopeDenied: no grant covers the scope.
        """
        pages = self.find(by, scope=scope, hidden=True, expired=True)
        return write_pages((self.history(by, page.id) for page in pages), file)

    def import_pages(self, by: Principal, file: BinaryIO) -> Imported:
        """Take in an export: all of it, or nothing. Pages that are there already, in the same versions, are skipped.

        What comes in passes the door: it is redacted, checked, and its representations are made anew.

        Raises:
            ImportFailed: the file is not whole, or at odds with what is stored.
            ScopeDenied: a page lies out of grant.
        """
        lines, batch = read_lines(file), f"import-{token(10)}"

        def work(tx: Transaction) -> Imported:
            door = Door(by.grants[0] if by.grants else "", self._redactor, self._representer, self._limits)
            return Intake(by, door).run(tx, lines, batch, self._clock())

        return self._transact(work)

    def close(self) -> None:
        """Give back connections and files. Closing twice is fine."""
        self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
