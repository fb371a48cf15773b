"""The tables of the index of words in PostgreSQL, and what is written to them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, LiteralString

import psycopg

from instar.memstore.recall.documents import Doc, root_of
from instar.memstore.recall.errors import IndexFailed

DERIVED: LiteralString = "recall_docs, recall_terms, recall_scopes, recall_roots, recall_meta"
SCHEMA: tuple[LiteralString, ...] = (
    "CREATE TABLE IF NOT EXISTS recall_meta(name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS recall_roots(id SERIAL PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
    'CREATE TABLE IF NOT EXISTS recall_scopes(id SERIAL PRIMARY KEY, path TEXT COLLATE "C" NOT NULL UNIQUE,'
    " root INT NOT NULL, docs BIGINT NOT NULL DEFAULT 0, terms BIGINT NOT NULL DEFAULT 0)",
    "CREATE TABLE IF NOT EXISTS recall_docs(seq BIGINT PRIMARY KEY, id TEXT NOT NULL, scope INT NOT NULL,"
    " session BIGINT NOT NULL, created BIGINT NOT NULL, expires BIGINT, length INT NOT NULL,"
    " words TEXT NOT NULL, counts BYTEA NOT NULL, marks TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS recall_terms(seq BIGINT PRIMARY KEY, created BIGINT NOT NULL, terms INT[] NOT NULL)",
    "ALTER TABLE recall_terms ALTER COLUMN terms SET STATISTICS 300",
    "CREATE TABLE IF NOT EXISTS recall_shown(seq BIGINT PRIMARY KEY, times BIGINT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS recall_docs_session ON recall_docs(session, seq) WHERE session != 0",
    "CREATE INDEX IF NOT EXISTS recall_docs_scope ON recall_docs(scope, seq)",
    "CREATE INDEX IF NOT EXISTS recall_docs_created ON recall_docs(scope, created) INCLUDE (seq)",
    # Every search reads the list of what is not sorted in yet, from its beginning to its end.
    "CREATE INDEX IF NOT EXISTS recall_terms_held ON recall_terms USING gin(terms)"
    " WITH (gin_pending_list_limit = 128)",
)
_LAST = "recall_docs_created"
"""What came into the schema last: who has it has all of it."""
FORMAT_NAME = "format"
"""Under this name the format of the tables is kept."""


@lru_cache(maxsize=200_000)
def term_hash(root: str, term: str) -> int:
    """What a term of a root is indexed by."""
    digest = hashlib.blake2b(f"{root}\0{term}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big", signed=True)


def format_of(connection: psycopg.Connection[Any]) -> str | None:
    """The format of the index that there is; None for none, empty for one from before formats had numbers."""
    if connection.execute("SELECT to_regclass('recall_meta')").fetchone() == (None,):
        return None
    found = connection.execute("SELECT value FROM recall_meta WHERE name = %s", [FORMAT_NAME]).fetchone()
    return found[0] if found else ""


def is_made(connection: psycopg.Connection[Any], number: int) -> bool:
    """Whether everything is there in this format."""
    if format_of(connection) != str(number):
        return False
    return connection.execute("SELECT to_regclass(%s) IS NOT NULL", [_LAST]).fetchone() == (True,)


def remember(connection: psycopg.Connection[Any], name: str, value: str) -> None:
    """Keep a setting beside the documents."""
    connection.execute(
        "INSERT INTO recall_meta VALUES(%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        [name, value],
    )


def put(connection: psycopg.Connection[Any], docs: Sequence[Doc]) -> None:
    """Add documents that are not there."""
    places: dict[str, int] = {}
    totals: dict[int, list[int]] = {}
    with connection.cursor() as cursor:
        for scope in dict.fromkeys(doc.scope for doc in docs):
            places[scope] = _place(connection, scope)
        with cursor.copy("COPY recall_docs FROM STDIN") as copy:
            for doc in docs:
                length = sum(doc.words.values())
                total = totals.setdefault(places[doc.scope], [0, 0])
                total[0] += 1
                total[1] += length
                given = (doc.seq, doc.id, places[doc.scope], doc.session, doc.created, doc.expires, length)
                copy.write_row((*given, " ".join(doc.words), bytes(doc.words.values()), " ".join(doc.marks)))
        with cursor.copy("COPY recall_terms FROM STDIN") as copy:
            for doc in docs:
                root = root_of(doc.scope)
                held = ",".join(str(term_hash(root, term)) for term in (*doc.words, *doc.marks))
                copy.write_row((doc.seq, doc.created, f"{{{held}}}"))
    _count(connection, totals)


def take(connection: psycopg.Connection[Any], seqs: Collection[int]) -> None:
    """Take out those of these documents that are there."""
    totals: dict[int, list[int]] = {}
    connection.execute("DELETE FROM recall_terms WHERE seq = ANY(%s)", [list(seqs)])
    for scope, length in connection.execute(
        "DELETE FROM recall_docs WHERE seq = ANY(%s) RETURNING scope, length", [list(seqs)]
    ):
        total = totals.setdefault(scope, [0, 0])
        total[0] -= 1
        total[1] -= length
    _count(connection, totals)


def _place(connection: psycopg.Connection[Any], scope: str) -> int:
    """The number of a scope, given out on first sight, as is that of its root."""
    name = root_of(scope)
    connection.execute("INSERT INTO recall_roots(name) VALUES(%s) ON CONFLICT DO NOTHING", [name])
    connection.execute(
        "INSERT INTO recall_scopes(path, root) SELECT %s, id FROM recall_roots WHERE name = %s"
        " ON CONFLICT DO NOTHING",
        [scope, name],
    )
    found = connection.execute("SELECT id FROM recall_scopes WHERE path = %s", [scope]).fetchone()
    if found is None:
        raise IndexFailed("the index in PostgreSQL", "a number was not given out")
    return int(found[0])


def _count(connection: psycopg.Connection[Any], totals: Mapping[int, Sequence[int]]) -> None:
    with connection.cursor() as cursor:
        cursor.executemany(
            "UPDATE recall_scopes SET docs = docs + %s, terms = terms + %s WHERE id = %s",
            [(docs, length, scope) for scope, (docs, length) in totals.items()],
        )
