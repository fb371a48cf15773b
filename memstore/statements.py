"""The statements that every commit runs: made once, compiled once for each dialect, handed to the driver as text.

Building a statement anew, or only walking through it again, would cost more than the database takes to run it.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any

from sqlalchemy import Column, Dialect, Select, Update, bindparam, select
from sqlalchemy.dialects import registry
from sqlalchemy.sql.dml import Delete

from instar.memstore import schema

_HEAD, _VERSION, _TAG = schema.pages.c, schema.versions.c, schema.tags.c
PAGE = select(
    *(_HEAD[name] for name in ("seq", "id", "kind", "type", "scope", "parent", "session", "created_at", "hidden")),
    *(column for column in schema.versions.c if column.name not in ("page", "batch")),
).join(schema.versions, _VERSION.page == _HEAD.seq)
LAST = PAGE.where(_VERSION.version == _HEAD.version)

ONE_HEAD = LAST.where(_HEAD.id == bindparam("of"))
ONE_SCOPE = select(_HEAD.id, _HEAD.scope).where(_HEAD.id == bindparam("of"))
VERSIONS = PAGE.where(_HEAD.id == bindparam("of")).order_by(_VERSION.version)
ONE_VERSION = VERSIONS.where(_VERSION.version == bindparam("number"))
ADVANCE = (
    schema.pages.update()
    .where(_HEAD.seq == bindparam("of"), _HEAD.version == bindparam("before"))
    .values({name: bindparam(f"new_{name}") for name in ("version", "state", "expires_at", "hidden")})
)
UNTAG = schema.tags.delete().where(_TAG.page == bindparam("of"))


_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql.psycopg"}
_STYLES = {"sqlite": "qmark", "postgresql": "format"}
_named: Callable[[str, Sequence[str]], Any] = namedtuple


@dataclass(frozen=True, slots=True)
class Text:
    """A statement as a driver takes it."""

    sql: str
    given: Callable[[Mapping[str, Any]], Sequence[Any]]
    """Picks the positional parameters out of named ones."""
    row: Callable[[Sequence[Any]], Any]
    """A row of the driver with its columns by name."""


@dataclass(frozen=True, slots=True)
class Insert:
    """An insert as a driver takes it. Rows are given in the order of the table's columns."""

    sql: str
    encode: Callable[[Sequence[Any]], Sequence[Any]] | None
    """Makes bytes of the columns that are bytes, where there are such."""


@lru_cache(maxsize=64)
def text_of(statement: Select[Any] | Update | Delete, database: str) -> Text:
    """The text of one of the statements above, for a database by SQLAlchemy's name."""
    compiled = statement.compile(dialect=_dialect(database))
    columns = list(statement.selected_columns) if isinstance(statement, Select) else []
    return Text(str(compiled), _picker(compiled.positiontup or []), _reader(columns, database))


@lru_cache(maxsize=64)
def insert_into(table: str, database: str) -> Insert:
    """The text of an insert of whole rows. Where the database counts the rows itself, their number is left out."""
    known = schema.metadata.tables[table]
    names = [column.name for column in known.c if not _counts_itself(column)]
    compiled = known.insert().inline().compile(dialect=_dialect(database), column_keys=names)
    if compiled.positiontup != names:
        raise AssertionError(compiled.positiontup)  # rows are made in this order
    encoded = [place for place, name in enumerate(names) if _is_encoded(known.c[name], database)]
    return Insert(str(compiled), (lambda row: _encode(list(row), encoded)) if encoded else None)


@lru_cache(maxsize=2)
def _dialect(database: str) -> Dialect:
    # Parameters by position, as the engines have them: statements are joined, and rows are tuples.
    made: Dialect = registry.load(_DRIVERS[database])(paramstyle=_STYLES[database])
    return made


def _picker(names: Sequence[str]) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
    if len(names) == 1:
        name = names[0]
        return lambda given: (given[name],)
    return itemgetter(*names) if names else lambda _: ()


def _reader(columns: list[Any], database: str) -> Callable[[Sequence[Any]], Any]:
    row: Callable[[Sequence[Any]], Any] = _named("row", [column.name for column in columns])._make
    if encoded := [place for place, column in enumerate(columns) if _is_encoded(column, database)]:
        return lambda values: row(_decode(list(values), encoded))
    return row


def _is_encoded(column: Column[Any], database: str) -> bool:
    return database == "postgresql" and isinstance(column.type, schema.Verbatim)


def _encode(values: list[Any], places: Sequence[int]) -> list[Any]:
    for place in places:
        if values[place] is not None:
            values[place] = values[place].encode()
    return values


def _decode(values: list[Any], places: Sequence[int]) -> list[Any]:
    for place in places:
        if values[place] is not None:
            values[place] = bytes(values[place]).decode()
    return values


def _counts_itself(column: Column[Any]) -> bool:
    return column.name == "seq" and column.table.name != schema.pages.name
