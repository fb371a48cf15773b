"""Numbered steps from an empty database to the present schema. A released step never changes; new ones are added."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, Sequence, inspect, select
from sqlalchemy.schema import CreateSequence

from instar.memstore import schema
from instar.memstore.errors import StoreCorrupted, StoreTooNew

_VERSION = "schema_version"


def _pages_and_journal(connection: Connection) -> None:
    schema.metadata.create_all(connection, tables=schema.FIRST)
    if connection.dialect.name == "postgresql":
        connection.execute(CreateSequence(Sequence(schema.PAGE_SEQ)))


def _staging_and_outbox(connection: Connection) -> None:
    schema.metadata.create_all(connection, tables=schema.SECOND)
    # Pages that were there before have never been offered to an index.
    pages, outbox = schema.pages.c, schema.outbox
    connection.execute(outbox.insert().from_select(["page", "version"], select(pages.id, pages.version)))


def _standing_pages(connection: Connection) -> None:
    connection.exec_driver_sql(f"CREATE INDEX pages_standing ON pages (scope, type, seq) WHERE {schema.STANDING}")


STEPS: tuple[Callable[[Connection], None], ...] = (_pages_and_journal, _staging_and_outbox, _standing_pages)
"""Step n leads from version n to version n + 1."""


def schema_version(connection: Connection) -> int:
    """The version of the database; 0 when it is empty.

    Raises:
        ValueError: it holds tables, and they are not ours.
    """
    names = inspect(connection).get_table_names()
    if schema.store_meta.name not in names:
        if names:
            raise ValueError("holds tables of something else")
        return 0
    found = connection.scalar(select(schema.store_meta.c.value).where(schema.store_meta.c.name == _VERSION))
    return int(found or 0)


def migrate(connection: Connection, location: str) -> None:
    """Bring the database to the present version, inside the caller's transaction.

    Raises:
        StoreTooNew: it is ahead of this package.
        StoreCorrupted: it holds something else.
    """
    try:
        found = schema_version(connection)
    except ValueError as error:
        raise StoreCorrupted(location, str(error)) from error
    if found > len(STEPS):
        raise StoreTooNew(location, found, len(STEPS))
    for step in STEPS[found:]:
        step(connection)
    table = schema.store_meta
    if found == 0:
        connection.execute(table.insert().values(name=_VERSION, value=str(len(STEPS))))
    elif found < len(STEPS):
        connection.execute(table.update().where(table.c.name == _VERSION).values(value=str(len(STEPS))))
