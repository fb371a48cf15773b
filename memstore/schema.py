"""The tables. Times are microseconds since 1970 in UTC; JSON is canonical text, the same in both databases."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.types import TypeEngine

metadata = MetaData()
PAGE_SEQ = "page_seq"
"""PostgreSQL hands out the sequence numbers of pages from here; SQLite has one writer at a time and counts."""

# SQLite gives an INTEGER PRIMARY KEY its row id; PostgreSQL needs the wider type to be named.
_Seq = BigInteger().with_variant(Integer, "sqlite")
# Ranges of paths compare byte by byte, whatever the language of the server.
_Name = String().with_variant(String(collation="C"), "postgresql")


class Verbatim(TypeDecorator[str]):
    """Text that comes back byte by byte. PostgreSQL's own text cannot hold every character, so there it is bytes."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """TEXT, or BYTEA on PostgreSQL."""
        return dialect.type_descriptor(LargeBinary() if dialect.name == "postgresql" else Text())

    def process_bind_param(self, value: str | None, dialect: Dialect) -> Any:
        """The text or its bytes."""
        return value.encode() if value is not None and dialect.name == "postgresql" else value

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        """The text."""
        return bytes(value).decode() if value is not None and dialect.name == "postgresql" else value


store_meta = Table(
    "store_meta",
    metadata,
    Column("name", String, primary_key=True),
    Column("value", String, nullable=False),
)

pages = Table(
    "pages",
    metadata,
    Column("seq", _Seq, primary_key=True, autoincrement=False),
    Column("id", _Name, nullable=False, unique=True),
    Column("version", Integer, nullable=False),
    Column("kind", _Name, nullable=False),
    Column("type", String, nullable=False),
    Column("scope", _Name, nullable=False),
    Column("state", String, nullable=False),
    Column("parent", _Name),
    Column("session", _Name),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("hidden", Boolean, nullable=False),
    Index("pages_scope", "scope", "seq"),
    Index("pages_kind", "kind", "seq"),
    Index("pages_session", "session", "seq"),
    Index("pages_parent", "parent", "seq"),
)
"""One row for each page: what is searched by, and which version is the last."""

versions = Table(
    "versions",
    metadata,
    Column("page", _Seq, ForeignKey("pages.seq"), primary_key=True, autoincrement=False),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("state", String, nullable=False),
    Column("pin", String, nullable=False),
    Column("content", Text, nullable=False),
    Column("text", Verbatim, nullable=False),
    Column("source", Verbatim, nullable=False),
    Column("reference_ids", Text, nullable=False),
    Column("importance", Float, nullable=False),
    Column("tags", Text, nullable=False),
    Column("expires_at", BigInteger),
    Column("updated_at", BigInteger, nullable=False),
    Column("author", String, nullable=False),
    Column("batch", String, nullable=False),
    Column("digest", String, nullable=False),
    # NULL where it equals `full`, which is the text, or where that is empty the content.
    Column("compressed", Verbatim),
    Column("structured", Verbatim),
    Column("pointer", Verbatim, nullable=False),
    Column("tokens_pointer", Integer, nullable=False),
    Column("tokens_structured", Integer, nullable=False),
    Column("tokens_compressed", Integer, nullable=False),
    Column("tokens_full", Integer, nullable=False),
)
"""Every version with its content and its representations."""

tags = Table(
    "tags",
    metadata,
    Column("page", _Seq, ForeignKey("pages.seq"), primary_key=True, autoincrement=False),
    Column("tag", _Name, primary_key=True),
    Index("tags_tag", "tag", "page"),
)
"""Tags of the last version, to search by."""

journal = Table(
    "journal",
    metadata,
    Column("seq", _Seq, primary_key=True, autoincrement=True),
    Column("at", BigInteger, nullable=False),
    Column("batch", String, nullable=False),
    Column("actor", String, nullable=False),
    Column("scope", _Name, nullable=False),
    Column("page", String, nullable=False),
    Column("op", String, nullable=False),
    Column("status", String, nullable=False),
    Column("version", Integer, nullable=False),
    Column("code", String),
    Column("detail", Text, nullable=False),
    Column("digest", String, nullable=False),
    Column("value", Verbatim, nullable=False),
    Index("journal_batch", "batch"),
)

batches = Table(
    "batches",
    metadata,
    Column("id", String, primary_key=True),
    Column("scope", _Name, nullable=False),
    Column("key", String, nullable=False),
    Column("digest", String, nullable=False),
    Column("actor", String, nullable=False),
    Column("at", BigInteger, nullable=False),
    UniqueConstraint("scope", "key", name="batches_key"),
)
"""Committed batches that carry a key."""

faults = Table(
    "faults",
    metadata,
    Column("seq", _Seq, primary_key=True, autoincrement=True),
    Column("at", BigInteger, nullable=False),
    Column("kind", String, nullable=False),
    Column("scope", _Name, nullable=False),
    Column("session", _Name, nullable=False),
    Column("turn", Integer, nullable=False),
    Column("cause", Text, nullable=False),
    Column("pages", Text, nullable=False),
    Index("faults_session", "session", "seq"),
)

staged = Table(
    "staged",
    metadata,
    Column("seq", _Seq, primary_key=True, autoincrement=True),
    Column("scope", _Name, nullable=False),
    Column("session", _Name, nullable=False),
    Column("batch", String, nullable=False),
    Column("entry", Text, nullable=False),
    Index("staged_session", "scope", "session", "seq"),
)
"""Entries that are durable and have no effect yet."""

traces = Table(
    "traces",
    metadata,
    Column("seq", _Seq, primary_key=True, autoincrement=True),
    Column("run", String, nullable=False),
    Column("line", Text, nullable=False),
    Index("traces_run", "run", "seq"),
)

outbox = Table(
    "outbox",
    metadata,
    Column("seq", _Seq, primary_key=True, autoincrement=True),
    Column("page", _Name, nullable=False),
    Column("version", Integer, nullable=False),
)
"""Page changes for whoever keeps an index or sends events."""

cursors = Table(
    "cursors",
    metadata,
    Column("consumer", String, primary_key=True),
    Column("through", BigInteger, nullable=False),
)

STANDING = "pages.type IN ('bootstrap', 'constraint', 'plan', 'preference')"
"""Few among many pages, and asked for whenever a session begins: there is an index on these alone. A statement that
is to be served by it repeats the condition word by word."""

FIRST = (store_meta, pages, versions, tags, journal, batches, faults)
SECOND = (staged, traces, outbox, cursors)
"""Tables by the schema version that brought them."""
