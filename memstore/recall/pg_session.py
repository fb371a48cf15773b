"""The connection of an index in PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
from psycopg.sql import Composed

from instar.memstore.recall.errors import IndexFailed

_LOCK = 7_469_003
"""Number of the advisory lock of whoever writes the index."""
# The index is derived, and its cursor is committed with its content: what a crash loses is brought in again.
# Which plan is good depends on how common a term is, so that none is made for terms in general.
_SETTINGS: LiteralString = (
    "SET synchronous_commit = off; SET plan_cache_mode = force_custom_plan; SET jit = off; SET work_mem = '32MB'"
)


class Session:
    """One connection that threads take turns on; it is made anew when it was lost."""

    def __init__(self, address: str, settings: LiteralString = "") -> None:
        self._settings = settings
        self._address = address.replace("postgresql+psycopg://", "postgresql://", 1)
        self._lock = threading.RLock()
        self._connection: psycopg.Connection[Any] | None = None

    def all(self, sql: LiteralString | Composed, given: Sequence[Any] = ()) -> list[Any]:
        """The rows of a query."""
        with self._open() as connection, connection.cursor(binary=True) as cursor:
            return cursor.execute(sql, given).fetchall()

    def each(self, sql: LiteralString, given: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """The rows of a query for each of these parameters, in one round trip."""
        with self._open() as connection, connection.pipeline():
            cursors = [connection.cursor(binary=True).execute(sql, one) for one in given]
            return [cursor.fetchall() for cursor in cursors]

    @contextmanager
    def writing(self) -> Iterator[psycopg.Connection[Any]]:
        """A transaction, alone among those who write the index."""
        with self._open() as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            yield connection

    def alone(self, sql: LiteralString) -> None:
        """Run a statement that must not be part of a transaction."""
        with self._open() as connection:
            connection.execute(sql)

    def close(self) -> None:
        """Close the connection; the next use opens another one."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _open(self) -> Iterator[psycopg.Connection[Any]]:
        with self._lock:
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = psycopg.connect(self._address, autocommit=True, connect_timeout=10)
                    self._connection.execute(_SETTINGS + self._settings)
                yield self._connection
            except psycopg.Error as error:
                if isinstance(error, psycopg.OperationalError):
                    self.close()
                line = (str(error).strip() or type(error).__name__).splitlines()[0]
                raise IndexFailed("the index in PostgreSQL", line) from error
