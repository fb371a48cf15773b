"""PostgreSQL: many writers at once. Who meets another one tries again, and nobody overwrites what he has not read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain, groupby
from select import POLLIN, poll
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, CursorResult, Engine, Executable, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, InvalidatePoolError

from instar.memstore import schema
from instar.memstore.backend import LogQuery, OutboxRow, Raced
from instar.memstore.errors import (
    InvalidRequest,
    StoreCorrupted,
    StoreFailed,
    StoreFull,
    StoreLocked,
    StoreNotPermitted,
    StoreReadOnly,
    StoreUnavailable,
)
from instar.memstore.migrations import migrate
from instar.memstore.pages import Page
from instar.memstore.rows import head_values
from instar.memstore.sql import SqlTransaction, check_pages
from instar.memstore.writes import BatchRecord, JournalEntry

_RACED = frozenset({"40001", "40P01", "23505"})
"""Serialization failure, deadlock, and two who insert the same key."""
_BY_STATE: dict[str, type[StoreUnavailable]] = {
    "53100": StoreFull,
    "53200": StoreFull,
    "25006": StoreReadOnly,
    "42501": StoreNotPermitted,
    "55P03": StoreLocked,
    "57014": StoreLocked,
    "XX001": StoreCorrupted,
    "XX002": StoreCorrupted,
}
_KEPT = 4
"""So many connections that write are kept for later."""
_MIGRATING, _WRITING = 7_469_001, 7_469_002
"""Numbers of advisory locks."""
_BOTH = {"a": _WRITING}
_SHARE = text(f"SELECT pg_advisory_xact_lock_shared({_WRITING})")
_SEQS_AND_SHARE = (
    f"SELECT nextval('{schema.PAGE_SEQ}'), pg_advisory_xact_lock_shared({_WRITING}) "  # noqa: S608  (constants)
    "FROM generate_series(1, %s)"
)
T = TypeVar("T")


class PostgresBackend:
    """A database on a server. Transactions are repeatable reads with conditional updates.

    Numbers of journal and outbox lines are handed out before their transactions end. So that a reader who remembers
    the last number never misses one, writers share a lock that readers of these two take alone for a moment.
    """

    def __init__(self, address: str, *, busy_timeout: float = 30.0) -> None:
        try:
            url = make_url(address)
        except (ArgumentError, ValueError) as error:
            raise InvalidRequest("not the address of a PostgreSQL database") from error
        self._location = url.render_as_string(hide_password=True)
        self._engine = _engine(url, busy_timeout)
        self._settled = self._engine.execution_options(isolation_level="READ COMMITTED")
        self._idle: deque[_Transaction] = deque()
        """Connections that wrote and will again: to fetch one from the pool takes as long as a round trip."""
        try:
            with self._translated(), self._engine.begin() as connection:
                connection.execute(text("SELECT pg_advisory_xact_lock(:a)"), {"a": _MIGRATING})
                migrate(connection, self._location)
        except BaseException:
            self._engine.dispose()
            raise

    @contextmanager
    def read(self) -> Iterator[SqlTransaction]:
        """A snapshot."""
        with self._translated(), self._engine.begin() as snapshot:
            yield _Transaction(snapshot, self._settled)

    def write(self, work: Callable[[SqlTransaction], T]) -> T:
        """A snapshot that may be changed; raises `Raced` when somebody else changed the same."""
        with self._translated():
            transaction = self._writer()
            try:
                done = work(transaction)
                transaction.settle()
            except BaseException:
                transaction.abandon()
                raise
            if len(self._idle) < _KEPT:
                self._idle.append(transaction)
            else:
                transaction.connection.close()
            return done

    def _writer(self) -> _Transaction:
        """A connection that is still there, with no transaction on it."""
        while self._idle:
            try:
                transaction = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if _is_there(transaction.driver):
                return transaction
            transaction.connection.invalidate()
            transaction.connection.close()
        return _Transaction(self._engine.connect(), self._settled)

    def check(self) -> list[str]:
        """Pages without their last version, and versions whose bytes do not match their hash."""
        with self._translated(), self._engine.begin() as connection:
            return check_pages(connection)

    def close(self) -> None:
        """Close the connections of this process."""
        while self._idle:
            self._idle.pop().connection.close()
        self._engine.dispose()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise self._named(error.orig) from error
        except self._engine.dialect.loaded_dbapi.Error as error:
            raise self._named(error) from error

    def _named(self, error: BaseException | None) -> Exception:
        state = getattr(error, "sqlstate", None) or ""
        if state in _RACED:
            return Raced()
        kind = StoreNotPermitted if state.startswith("28") else _BY_STATE.get(state, StoreFailed)
        return kind(self._location, (str(error).strip() or type(error).__name__).splitlines()[0])


class _Transaction(SqlTransaction):
    """Inserts wait and travel together, at the latest with the end of the transaction: a round trip costs more than
    an insert. Whatever else is run sees them.

    Reads the two logs on a connection of its own, when nobody is about to add to them.
    """

    def __init__(self, connection: Connection, settled: Engine) -> None:
        super().__init__(connection)
        self._engine = settled
        self._locked = False
        self._waiting: list[tuple[str, Sequence[Any]]] = []

    def settle(self) -> None:
        """Send what waits and commit, in one round trip."""
        if self._waiting:
            self._send(commit=True)
        else:
            self.driver.commit()
        self._locked = False

    def abandon(self) -> None:
        """Roll back, and give the connection away."""
        if self.driver.closed:
            self.connection.invalidate()
        self.connection.close()

    def put(self, pages: Sequence[Page], batch: str) -> None:
        if not any(page.seq == 0 for page in pages):
            self._lock()
        super().put(pages, batch)

    def hide(self, ids: Collection[str], hidden: bool) -> None:
        self._lock()
        super().hide(ids, hidden)

    def log(self, entries: Sequence[JournalEntry], batch: BatchRecord | None = None) -> None:
        self._lock()
        super().log(entries, batch)

    def journal(self, query: LogQuery) -> list[JournalEntry]:
        with self._alone() as connection:
            return SqlTransaction(connection).journal(query)

    def outbox(self, since: int, limit: int) -> list[OutboxRow]:
        with self._alone() as connection:
            return SqlTransaction(connection).outbox(since, limit)

    def _lock(self) -> None:
        """Before the first number of a log is taken, until the end of the transaction."""
        if not self._locked:
            self._run(_SHARE)
            self._locked = True

    def _add(self, sql: str, rows: Sequence[Any]) -> None:
        self._waiting.append((sql, rows))

    def _ask(self, sql: str, given: Sequence[Any]) -> Any:
        if self._waiting:
            self._send(commit=False)
        return super()._ask(sql, given)

    def _run(
        self, statement: Executable, given: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    ) -> CursorResult[Any]:
        if self._waiting:
            self._send(commit=False)
        return super()._run(statement, given)

    def _send(self, *, commit: bool) -> None:
        connection = self.driver
        waiting, self._waiting = _together(self._waiting), []
        with connection.pipeline(), connection.cursor() as cursor:
            for sql, rows in waiting:
                if len(rows) == 1:
                    cursor.execute(sql, rows[0])
                else:
                    cursor.executemany(sql, rows)
            if commit:
                connection.commit()

    def _insert_heads(self, pages: Sequence[Page]) -> Sequence[int]:
        seqs = sorted(row[0] for row in self.driver.execute(_SEQS_AND_SHARE, [len(pages)]))
        self._locked = True
        self._insert("pages", [head_values(page, seq) for page, seq in zip(pages, seqs, strict=True)])
        return seqs

    @contextmanager
    def _alone(self) -> Iterator[Connection]:
        with self._engine.begin() as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:a)"), _BOTH)
            yield connection


def _together(inserts: Iterable[tuple[str, Sequence[Any]]]) -> list[tuple[str, Sequence[Any]]]:
    """The same inserts in the same order, neighbours of one row each as one statement."""
    found: list[tuple[str, Sequence[Any]]] = []
    for single, run in groupby(inserts, key=lambda insert: len(insert[1]) == 1):
        if single:
            statements, rows = zip(*run, strict=True)
            found.append((_joined(statements), [tuple(chain.from_iterable(row for (row,) in rows))]))
        else:
            found += run
    return found


@lru_cache(maxsize=256)
def _joined(statements: tuple[str, ...]) -> str:
    *before, last = statements
    parts = [f"w{n} AS ({sql})" for n, sql in enumerate(before)]
    return f"WITH {', '.join(parts)} {last}" if parts else last


def _engine(url: URL, busy_timeout: float) -> Engine:
    wait = int(busy_timeout * 1000)
    engine = create_engine(
        url,
        isolation_level="REPEATABLE READ",
        paramstyle="format",  # parameters by position, so that statements can be joined
        pool_size=4,
        max_overflow=28,
        connect_args={"options": f"-c lock_timeout={wait} -c timezone=UTC", "connect_timeout": 10},
    )
    event.listen(engine, "checkout", _still_there)
    return engine


def _still_there(connection: Any, record: object, proxy: object) -> None:
    """The pool connects anew where the server ended a connection."""
    if not _is_there(connection):
        raise InvalidatePoolError("the server ended the connection")


def _is_there(connection: Any) -> bool:
    """A server that goes away says so on every connection that waits; nothing else makes such a one readable. To look
    costs no round trip, as a ping would."""
    if connection.closed:
        return False
    waiting = poll()
    waiting.register(connection.fileno(), POLLIN)
    return not waiting.poll(0)
