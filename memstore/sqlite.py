"""The SQLite file: opened carefully, written under one lock, every failure of the machine by its own name."""

from __future__ import annotations

import errno
import os
import random
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from instar.memstore.backend import Raced
from instar.memstore.disk import in_words, out_of_room
from instar.memstore.errors import (
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
from instar.memstore.statements import insert_into

SETTINGS = (
    "synchronous=FULL",
    "foreign_keys=ON",
    "trusted_schema=OFF",
    "secure_delete=ON",  # what is erased leaves no bytes behind
    "cache_size=-32000",
)
"""What every connection is told."""
_FIRST_PAUSE, _GROWTH, _LONGEST_PAUSE = 0.001, 2, 0.05
"""Seconds between two looks at the lock: at first about as long as a commit or two take."""
_BEGIN = "instar_begin"
"""Names the option of a connection that says how its transactions begin."""
_RACED = frozenset({sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY})
"""What was taken for new is there already."""
_BY_CODE: dict[int, type[StoreUnavailable]] = {
    sqlite3.SQLITE_BUSY: StoreLocked,
    sqlite3.SQLITE_LOCKED: StoreLocked,
    sqlite3.SQLITE_READONLY: StoreReadOnly,
    sqlite3.SQLITE_CORRUPT: StoreCorrupted,
    sqlite3.SQLITE_NOTADB: StoreCorrupted,
    sqlite3.SQLITE_CANTOPEN: StoreNotPermitted,
    sqlite3.SQLITE_PERM: StoreNotPermitted,
    sqlite3.SQLITE_AUTH: StoreNotPermitted,
}

T = TypeVar("T")


class SqliteBackend:
    """A file that several processes may use at once: WAL, full synchronisation, one writer at a time.

    The file is made with mode 0600. Writers wait for each other up to `busy_timeout` seconds.
    """

    def __init__(self, path: Path, *, busy_timeout: float = 30.0) -> None:
        self._path, self._timeout = path, busy_timeout
        self._turn = threading.Lock()
        self._writing: SqlTransaction | None = None
        self._prepare()
        self._engine = self._make_engine()
        try:
            with self._translated(), self._begin("BEGIN IMMEDIATE") as connection:
                migrate(connection, str(path))
        except BaseException:
            self._engine.dispose()
            raise

    # Transactions

    @contextmanager
    def read(self) -> Iterator[SqlTransaction]:
        """A snapshot; writers are not held up."""
        with self._translated(), self._begin("BEGIN") as connection:
            yield SqlTransaction(connection)

    def write(self, work: Callable[[SqlTransaction], T]) -> T:
        """A transaction that holds the write lock from its first moment."""
        # Threads of one process take turns here, so that they do not wait for each other in the file.
        with self._turn:
            try:
                transaction = self._writer()
                driver = transaction.driver
                _begin_writing(driver, self._timeout)
                try:
                    done = work(transaction)
                    driver.execute("COMMIT")
                    return done
                finally:
                    if driver.in_transaction:
                        driver.execute("ROLLBACK")
            except (DBAPIError, sqlite3.Error) as error:
                raise self._named(error) from error

    def _writer(self) -> SqlTransaction:
        """The one connection that writes. It is kept: to fetch one from the pool takes as long as the writing."""
        if self._writing is None:
            connection = self._engine.connect().execution_options(**{_BEGIN: ""})
            self._writing = _Transaction(connection)
            self._writing.driver.execute("PRAGMA busy_timeout=0")  # it waits its own way, see `_begin_writing`
        return self._writing

    @contextmanager
    def _begin(self, how: str) -> Iterator[Connection]:
        with self._engine.connect() as connection:
            connection = connection.execution_options(**{_BEGIN: how})  # noqa: PLW2901  (the same connection)
            with connection.begin():
                yield connection

    # Care

    def check(self) -> list[str]:
        """SQLite's own check, dangling rows, and every page's bytes against their hash."""
        found: list[str] = []
        with self._translated(), self._begin("BEGIN") as connection:
            found += [row[0] for row in connection.execute(text("PRAGMA integrity_check(20)")) if row[0] != "ok"]
            found += [f"dangling row in {row[0]}" for row in connection.execute(text("PRAGMA foreign_key_check"))]
            found += check_pages(connection)
        return found

    def close(self) -> None:
        """Close the connections of this process; the last one folds the write-ahead log into the file."""
        with self._turn:
            if self._writing is not None:
                self._writing.connection.close()
                self._writing = None
        self._engine.dispose()

    # Opening

    def _prepare(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except IsADirectoryError as error:
            raise StoreNotPermitted(str(self._path), "is a folder") from error
        except PermissionError as error:
            if self._path.exists() and os.access(self._path, os.R_OK):
                raise StoreReadOnly(str(self._path), "the file is read-only") from error
            raise StoreNotPermitted(str(self._path), error.strerror or "permission denied") from error
        except OSError as error:
            if out_of_room(error, self._path.parent):
                raise StoreFull(str(self._path), in_words(error)) from error
            kind = StoreReadOnly if error.errno == errno.EROFS else StoreNotPermitted
            raise kind(str(self._path), error.strerror or str(error)) from error
        if not stat.S_ISREG(self._path.stat().st_mode):
            raise StoreNotPermitted(str(self._path), "is not a regular file")

    def _make_engine(self) -> Engine:
        engine = create_engine(
            URL.create("sqlite", database=str(self._path)),
            poolclass=QueuePool,
            pool_size=4,
            max_overflow=28,
            connect_args={"timeout": self._timeout, "check_same_thread": False, "uri": False},
        )
        event.listen(engine, "connect", self._on_connect)
        event.listen(engine, "begin", _on_begin)
        return engine

    def _on_connect(self, connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None  # SQLAlchemy begins; the driver must not
        cursor = connection.cursor()
        try:
            if cursor.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                cursor.execute("PRAGMA journal_mode=WAL")
            for setting in SETTINGS:
                cursor.execute(f"PRAGMA {setting}")
        finally:
            cursor.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """The failures of the driver, by the names of this package."""
        try:
            yield
        except (DBAPIError, sqlite3.Error) as error:
            raise self._named(error) from error

    def _named(self, error: DBAPIError | sqlite3.Error) -> Exception:
        found = error.orig if isinstance(error, DBAPIError) else error
        code = getattr(found, "sqlite_errorcode", 0)
        if code in _RACED:
            return Raced()
        kind = _BY_CODE.get(code & 0xFF, StoreFailed)
        if found is not None and out_of_room(found, self._path.parent):
            return StoreFull(str(self._path), in_words(found))
        return kind(str(self._path), str(found))


def _on_begin(connection: Connection) -> None:
    # A transaction that will write takes the lock at once: one that upgrades later fails without waiting.
    if how := connection.get_execution_options().get(_BEGIN, "BEGIN"):
        connection.exec_driver_sql(how)


def _begin_writing(driver: sqlite3.Connection, busy_timeout: float) -> None:
    """Take the write lock, which another process may have.

    SQLite's own way to wait sleeps up to 100 ms, by the same steps in every process: those who met once meet again.
    """
    pause, end = _FIRST_PAUSE, time.monotonic() + busy_timeout
    while True:
        try:
            driver.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= end:
                raise
        time.sleep(random.uniform(0.5, 1) * pause)  # noqa: S311  (so that two do not meet again)
        pause = min(pause * _GROWTH, _LONGEST_PAUSE)


class _Transaction(SqlTransaction):
    """SQLite numbers a row that comes without a number by one more than the highest: pages are never deleted."""

    def _insert_heads(self, pages: Sequence[Page]) -> Sequence[int]:
        sql = insert_into("pages", "sqlite").sql
        return [self.driver.execute(sql, head_values(page, None)).lastrowid for page in pages]
