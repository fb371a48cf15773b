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
from instar.memstore.recall.errors import IndexFailed, IndexNotPermitted

_PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL", "secure_delete=ON", "cache_size=-64000", "temp_store=MEMORY")
_REFUSED = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY})
T = TypeVar("T")


class DerivedFile:
    """One connection that threads take turns on; memory where the path is None. Readable by its owner only.

    The number of the schema is kept in the file. Whatever goes wrong is raised as `IndexFailed`.
    """

    def __init__(self, path: Path | None, schema: str, number: int, *, busy_timeout: float = 30.0) -> None:
        self._path = path
        self._lock = threading.RLock()
        with self._translated():
            self._connection = _open(path, schema, number, busy_timeout)

    def all(self, sql: str, given: Sequence[Any] = ()) -> list[Any]:
        """The rows of a query."""
        with self._translated(), self._lock:
            return self._connection.execute(sql, given).fetchall()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction; other processes that write wait for it."""
        with self._translated(), self._lock:
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
    if isinstance(error, OSError) or getattr(error, "sqlite_errorcode", 0) & 0xFF in _REFUSED:
        return IndexNotPermitted(place, str(error))
    return IndexFailed(place, str(error))


def _open(path: Path | None, schema: str, number: int, busy_timeout: float) -> sqlite3.Connection:
    if path is not None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Asked for before SQLite is: to a file that it may only read it adds companions that nobody may write either.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(
        path or ":memory:", timeout=busy_timeout, check_same_thread=False, isolation_level=None
    )
    try:
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}").fetchall()
        connection.execute("BEGIN IMMEDIATE")
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if tables and found != number:
            raise sqlite3.DatabaseError("has another format")
        if not tables:
            for statement in filter(str.strip, schema.split(";\n")):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number:d}")
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection
