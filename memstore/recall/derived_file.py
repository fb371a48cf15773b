"""An SQLite file of derived data: opened with a schema and its number, written in short transactions, made anew when
it is damaged or of another number."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from instar.memstore.disk import in_words, out_of_room
from instar.memstore.recall.errors import IndexBusy, IndexFailed, IndexNotPermitted

_PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL", "secure_delete=ON", "cache_size=-64000", "temp_store=MEMORY")
_WAIT = 5.0
"""Seconds to wait for another process that writes. What takes longer than a batch has its turn instead."""
_REFUSED = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY})
T = TypeVar("T")


class DerivedFile:
    """One connection that threads take turns on; memory where the path is None. Readable by its owner only.

    The number of the schema is kept in the file. Whatever goes wrong is raised as `IndexFailed`.
    """

    def __init__(self, path: Path | None, schema: str, number: int) -> None:
        self._path = path
        self._lock = threading.RLock()
        with self._translated():
            self._connection = _open(path, schema, number)

    def all(self, sql: str, given: Sequence[Any] = ()) -> list[Any]:
        """The rows of a query."""
        with self._translated(), self._lock:
            return self._connection.execute(sql, given).fetchall()

    @contextmanager
    def writing(self, wait: float = _WAIT) -> Iterator[sqlite3.Connection]:
        """A transaction; other processes that write wait for it, and it waits for them for so many seconds."""
        with self._translated(), self._lock:
            self._connection.execute(f"PRAGMA busy_timeout = {int(1_000 * wait)}")
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def fold(self) -> None:
        """Move the log into the file, and leave the log empty."""
        self.all("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise _named(error, self._path) from error


def opened_or_anew(path: Path, make: Callable[[Path], T]) -> T:
    """What `make` opens at a path. A file that is damaged or of another format is removed, since it can be derived.

    Raises:
        IndexFailed: it cannot be made anew either, or is only held by a process that writes for too long, refused by
            the system, or without room.
    """
    try:
        return make(path)
    except IndexFailed as error:
        if isinstance(error.__cause__, sqlite3.OperationalError | OSError):
            raise
        for name in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
            with suppress(OSError):
                name.unlink()
        return make(path)


def _named(error: sqlite3.Error | OSError, path: Path | None) -> IndexFailed:
    place = str(path or "memory")
    if path is not None and out_of_room(error, path.parent):
        return IndexFailed(place, in_words(error))
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if isinstance(error, OSError) or code in _REFUSED:
        return IndexNotPermitted(place, str(error))
    if code == sqlite3.SQLITE_BUSY:
        return IndexBusy(place)
    return IndexFailed(place, str(error))


def _open(path: Path | None, schema: str, number: int) -> sqlite3.Connection:
    if path is not None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Asked for before SQLite is: to a file that it may only read it adds companions that nobody may write either.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path or ":memory:", timeout=_WAIT, check_same_thread=False, isolation_level=None)
    try:
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}").fetchall()
        if not _is_made(connection, number):  # who finds it made need not wait for who writes it
            connection.execute("BEGIN IMMEDIATE")
            if not _is_made(connection, number):
                for statement in filter(str.strip, schema.split(";\n")):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number:d}")
            connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _is_made(connection: sqlite3.Connection, number: int) -> bool:
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    if tables and found != number:
        raise sqlite3.DatabaseError("has another format")
    return bool(tables)
