"""The connections of an index in PostgreSQL."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, LiteralString

import psycopg
from psycopg.errors import LockNotAvailable
from psycopg.sql import SQL, Composed, Literal

from instar.memstore.recall.errors import IndexBusy, IndexFailed
from instar.memstore.recall.turn import wait_for

_LOCK, _TURN = 7_469_003, 7_469_004
"""Numbers of the advisory locks of whoever writes the index, and of whoever brings it up to date."""
_PLACE = "the index in PostgreSQL"
_KEPT = 4
"""So many connections that nobody uses are kept for later."""
# The index is derived, and its cursor is committed with its content: what a crash loses is brought in again.
# Which plan is good depends on how common a term is, so that none is made for terms in general.
_SETTINGS: LiteralString = (
    "SET synchronous_commit = off; SET plan_cache_mode = force_custom_plan; SET jit = off; SET work_mem = '32MB'"
)
_IMPATIENT: LiteralString = "SET lock_timeout = '5s'"


class Session:
    """Connections that threads take one each of, so that nobody waits; those that were lost are made anew."""

    def __init__(self, address: str, settings: LiteralString = "") -> None:
        self._settings = settings
        self._address = address.replace("postgresql+psycopg://", "postgresql://", 1)
        self._idle: deque[psycopg.Connection[Any]] = deque()

    def all(self, sql: LiteralString | Composed, given: Sequence[Any] = ()) -> list[Any]:
        """The rows of a query."""
        with self._open() as connection, connection.cursor(binary=True) as cursor:
            return cursor.execute(sql, given).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """Statements that have their effect together."""
        with self._open() as connection, connection.transaction():
            yield connection

    @contextmanager
    def writing(self, wait: float | None = None) -> Iterator[psycopg.Connection[Any]]:
        """A transaction, alone among those who write the index; it waits for each other one for so many seconds."""
        with self.transaction() as connection:
            if wait is not None:
                connection.execute(SQL("SET LOCAL lock_timeout = {}").format(Literal(int(1_000 * wait))))
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            yield connection

    @contextmanager
    def turn(self, within: float) -> Iterator[None]:
        """Be the one that brings the index up to date; the server gives it back when the connection ends.

        Raises:
            IndexBusy: another one is, and was for so many seconds.
        """
        end = time.monotonic() + within
        with self._open() as connection:
            asked: LiteralString = "SELECT pg_try_advisory_lock(%s)"
            wait_for(lambda: connection.execute(asked, [_TURN]).fetchone() == (True,), end, _PLACE)
            try:
                yield
            finally:
                connection.execute("SELECT pg_advisory_unlock(%s)", [_TURN])

    def alone(self, sql: LiteralString) -> None:
        """Run a statement that must not be part of a transaction, as soon as nobody is in its way."""
        with self._open() as connection:
            connection.execute("SET lock_timeout = 0")
            connection.execute(sql)
            connection.execute(_IMPATIENT)

    def close(self) -> None:
        """Close the connections that nobody uses; the next use opens another one."""
        while self._idle:
            with suppress(IndexError):  # another thread was faster
                self._idle.pop().close()

    @contextmanager
    def _open(self) -> Iterator[psycopg.Connection[Any]]:
        try:
            connection = self._taken()
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
        except LockNotAvailable as error:
            raise IndexBusy(_PLACE) from error
        except psycopg.Error as error:
            if isinstance(error, psycopg.OperationalError):  # the others are likely to be lost as well
                self.close()
            line = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise IndexFailed(_PLACE, line) from error
        if len(self._idle) < _KEPT:
            self._idle.append(connection)
        else:
            connection.close()

    def _taken(self) -> psycopg.Connection[Any]:
        with suppress(IndexError):
            while (connection := self._idle.pop()).closed:
                pass
            return connection
        connection = psycopg.connect(self._address, autocommit=True, connect_timeout=10)
        try:
            connection.execute(f"{_SETTINGS}; {_IMPATIENT}{self._settings}")
        except BaseException:
            connection.close()
            raise
        return connection


def listed(numbers: Iterable[int]) -> str:
    """Whole numbers as PostgreSQL writes an array; the driver takes many times as long for a list."""
    return "{" + ",".join(map(str, map(int, numbers))) + "}"
