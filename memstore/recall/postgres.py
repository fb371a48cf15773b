"""The index in the database of the pages: words as `tsvector` under GIN, vectors in pgvector under HNSW.

Terms are made here, not by the text search parser of the server, so that both back ends find the same. As in SQLite
every lexeme carries the number of its scope root, and every root has a table of vectors of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, LiteralString

import numpy as np
import psycopg
from psycopg.sql import Composed

from instar.memstore.recall.documents import Doc, root_of
from instar.memstore.recall.embedders import Embedder
from instar.memstore.recall.errors import IndexFailed
from instar.memstore.recall.feed import Side
from instar.memstore.recall.index import Row, Seqs, Wanted, WordIndex

_LOCK = 7_469_003
"""Number of the advisory lock of whoever writes the index."""
_SCHEMA: tuple[LiteralString, ...] = (
    "CREATE TABLE IF NOT EXISTS recall_meta(name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS recall_roots(id SERIAL PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
    'CREATE TABLE IF NOT EXISTS recall_scopes(id SERIAL PRIMARY KEY, path TEXT COLLATE "C" NOT NULL UNIQUE,'
    " root INT NOT NULL, docs BIGINT NOT NULL DEFAULT 0, terms BIGINT NOT NULL DEFAULT 0)",
    "CREATE TABLE IF NOT EXISTS recall_docs(seq BIGINT PRIMARY KEY, id TEXT NOT NULL, scope INT NOT NULL,"
    " session BIGINT NOT NULL, created BIGINT NOT NULL, expires BIGINT, length INT NOT NULL,"
    " words TEXT NOT NULL, counts BYTEA NOT NULL, marks TEXT NOT NULL, lexemes TSVECTOR NOT NULL)",
    "CREATE TABLE IF NOT EXISTS recall_shown(seq BIGINT PRIMARY KEY, times BIGINT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS recall_docs_session ON recall_docs(session, seq) WHERE session != 0",
    "CREATE INDEX IF NOT EXISTS recall_docs_scope ON recall_docs(scope, seq)",
    "CREATE INDEX IF NOT EXISTS recall_docs_lexemes ON recall_docs USING gin(lexemes)",
)
_THROUGH = "through"
_FOREVER = 1 << 62


class Session:
    """One connection that threads take turns on; it is made anew when it was lost."""

    def __init__(self, address: str) -> None:
        self._address = address.replace("postgresql+psycopg://", "postgresql://", 1)
        self._lock = threading.RLock()
        self._connection: psycopg.Connection[Any] | None = None

    def all(self, sql: LiteralString | Composed, given: Sequence[Any] = ()) -> list[Any]:
        """The rows of a query."""
        with self._open() as connection, connection.cursor(binary=True) as cursor:
            return cursor.execute(sql, given).fetchall()

    @contextmanager
    def writing(self) -> Iterator[psycopg.Connection[Any]]:
        """A transaction, alone among those who write the index."""
        with self._open() as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            yield connection

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """A transaction that reads."""
        with self._open() as connection, connection.transaction():
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
                yield self._connection
            except psycopg.Error as error:
                if isinstance(error, psycopg.OperationalError):
                    self.close()
                line = (str(error).strip() or type(error).__name__).splitlines()[0]
                raise IndexFailed("the index in PostgreSQL", line) from error


class PostgresWords:
    """The index of words."""

    def __init__(self, session: Session) -> None:
        self._session = session
        with session.writing() as connection:
            for statement in _SCHEMA:
                connection.execute(statement)

    # The writer's side

    def through(self) -> int:
        """The last change that is in the index."""
        found = self._session.all("SELECT value FROM recall_meta WHERE name = %s", [_THROUGH])
        return int(found[0][0]) if found else 0

    def roots(self) -> list[str]:
        """The scope roots that there are."""
        return [row[0] for row in self._session.all("SELECT name FROM recall_roots ORDER BY name")]

    def settings(self) -> dict[str, str]:
        """What was remembered beside the documents."""
        return dict(self._session.all("SELECT name, value FROM recall_meta"))

    def remember(self, name: str, value: str) -> None:
        """Remember something beside the documents."""
        with self._session.writing() as connection:
            _remember(connection, name, value)

    def apply(self, docs: Sequence[Doc], gone: Collection[int], through: int) -> None:
        """Put, take out, remember how far; a batch that another process was faster with changes nothing."""
        with self._session.writing() as connection:
            found = connection.execute("SELECT value FROM recall_meta WHERE name = %s", [_THROUGH]).fetchone()
            if found and int(found[0]) >= through:
                return
            _take(connection, [*gone, *(doc.seq for doc in docs)])
            _put(connection, docs)
            _remember(connection, _THROUGH, str(through))

    def withdraw(self, seqs: Collection[int]) -> None:
        """Take out documents that the store still has."""
        with self._session.writing() as connection:
            _take(connection, seqs)

    def note_shown(self, shown: Mapping[int, int]) -> None:
        """Add to how often documents were shown."""
        with self._session.writing() as connection, connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO recall_shown VALUES(%s, %s)"
                " ON CONFLICT (seq) DO UPDATE SET times = recall_shown.times + excluded.times",
                list(shown.items()),
            )

    def shown(self, seqs: Collection[int]) -> dict[int, int]:
        """How often each of these documents was shown."""
        return dict(
            self._session.all("SELECT seq, times FROM recall_shown WHERE seq = ANY(%s)", [list(map(int, seqs))])
        )

    def clear(self) -> None:
        """Forget everything but how often what was shown; the settings too."""
        with self._session.writing() as connection:
            connection.execute("TRUNCATE recall_docs, recall_scopes, recall_roots, recall_meta")

    def purge(self) -> None:
        """Rewrite the table, so that nothing of what was taken out stays on its pages."""
        self._session.alone("VACUUM FULL recall_docs")

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    # Reading

    def holding(self, wanted: Wanted, terms: Sequence[str], limit: int) -> Seqs:
        """The newest documents that hold all of these terms."""
        root = self._session.all("SELECT id FROM recall_roots WHERE name = %s", [root_of(wanted.scope)])
        if not root:
            return np.empty(0, np.int64)
        asked = [*wanted.marks, *terms]
        query = " & ".join(f"'{_lexeme(root[0][0], term)}'" for term in asked)
        window = (wanted.since or -_FOREVER, wanted.until or _FOREVER, limit)
        if not asked:
            rows = self._session.all(
                "SELECT seq FROM recall_docs WHERE scope IN (SELECT id FROM recall_scopes WHERE root = %s)"
                " AND created >= %s AND created < %s ORDER BY seq DESC LIMIT %s",
                (root[0][0], *window),
            )
        elif wanted.since is None and wanted.until is None:
            rows = self._session.all(
                "SELECT seq FROM recall_docs WHERE lexemes @@ %s::tsquery ORDER BY seq DESC LIMIT %s", (query, limit)
            )
        else:
            rows = self._session.all(
                "SELECT seq FROM recall_docs WHERE lexemes @@ %s::tsquery AND created >= %s AND created < %s"
                " ORDER BY seq DESC LIMIT %s",
                (query, *window),
            )
        return np.fromiter((row[0] for row in rows), np.int64, len(rows))

    def rows(self, seqs: Collection[int], wanted: Wanted) -> list[Row]:
        """Those that are wanted."""
        asked = frozenset(wanted.marks)
        found = self._session.all(
            "SELECT seq, id, session, length, words, counts, marks FROM recall_docs WHERE seq = ANY(%s)"
            " AND (expires IS NULL OR expires > %s) AND created >= %s AND created < %s",
            (list(seqs), wanted.now, wanted.since or -_FOREVER, wanted.until or _FOREVER),
        )
        return [
            Row(seq, name, session, length, dict(zip(words.split(" "), bytes(counted), strict=False)))
            for seq, name, session, length, words, counted, marks in found
            if not asked or asked.issubset(marks.split(" "))
        ]

    def beside(self, rows: Sequence[Row]) -> Mapping[int, tuple[int, int]]:
        """The documents before and after each in its session."""
        here = [row for row in rows if row.session]
        found = self._session.all(
            "SELECT one.seq,"
            " (SELECT max(d.seq) FROM recall_docs d WHERE d.session = one.session AND d.session != 0"
            " AND d.seq < one.seq),"
            " (SELECT min(d.seq) FROM recall_docs d WHERE d.session = one.session AND d.session != 0"
            " AND d.seq > one.seq)"
            " FROM unnest(%s::bigint[], %s::bigint[]) AS one(session, seq)",
            ([row.session for row in here], [row.seq for row in here]),
        )
        return {seq: (before or 0, after or 0) for seq, before, after in found}

    def names(self, seqs: Collection[int]) -> dict[int, str]:
        """Page ids."""
        return dict(self._session.all("SELECT seq, id FROM recall_docs WHERE seq = ANY(%s)", [list(map(int, seqs))]))

    def totals(self, scope: str) -> tuple[int, int]:
        """Documents and terms in and below a scope."""
        docs, length = self._session.all(
            "SELECT coalesce(sum(docs), 0)::bigint, coalesce(sum(terms), 0)::bigint FROM recall_scopes"
            " WHERE path = %s OR path > %s AND path < %s",
            (scope, scope + "/", scope + "0"),
        )[0]
        return docs, length


def _lexeme(root: int, term: str) -> str:
    """A term of one root. Terms hold letters, digits and `_` only, so there is nothing to quote."""
    return f"{root}{term}" if term[0] == "_" else f"{root}_{term}"


def _remember(connection: psycopg.Connection[Any], name: str, value: str) -> None:
    connection.execute(
        "INSERT INTO recall_meta VALUES(%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        [name, value],
    )


def _put(connection: psycopg.Connection[Any], docs: Sequence[Doc]) -> None:
    places: dict[str, tuple[int, int]] = {}
    totals: dict[int, list[int]] = {}
    rows = []
    for doc in docs:
        if doc.scope not in places:
            places[doc.scope] = _place(connection, doc.scope)
        root, scope = places[doc.scope]
        length = sum(doc.words.values())
        lexemes = [_lexeme(root, term) for term in (*doc.words, *doc.marks)]
        rows.append(
            (
                doc.seq,
                doc.id,
                scope,
                doc.session,
                doc.created,
                doc.expires,
                length,
                " ".join(doc.words),
                bytes(doc.words.values()),
                " ".join(doc.marks),
                lexemes,
            )
        )
        total = totals.setdefault(scope, [0, 0])
        total[0] += 1
        total[1] += length
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO recall_docs VALUES(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, array_to_tsvector(%s::text[]))",
            rows,
        )
    _count(connection, totals)


def _take(connection: psycopg.Connection[Any], seqs: Collection[int]) -> None:
    totals: dict[int, list[int]] = {}
    for scope, length in connection.execute(
        "DELETE FROM recall_docs WHERE seq = ANY(%s) RETURNING scope, length", [list(seqs)]
    ):
        total = totals.setdefault(scope, [0, 0])
        total[0] -= 1
        total[1] -= length
    _count(connection, totals)


def _place(connection: psycopg.Connection[Any], scope: str) -> tuple[int, int]:
    """The numbers of a scope and its root, given out on first sight."""
    root = connection.execute("SELECT id FROM recall_roots WHERE name = %s", [root_of(scope)]).fetchone()
    if root is None:
        sql: LiteralString = "INSERT INTO recall_roots(name) VALUES(%s) RETURNING id"
        root = connection.execute(sql, [root_of(scope)]).fetchone()
    found = connection.execute("SELECT id FROM recall_scopes WHERE path = %s", [scope]).fetchone()
    if found is None and root is not None:
        sql = "INSERT INTO recall_scopes(path, root) VALUES(%s, %s) RETURNING id"
        found = connection.execute(sql, [scope, root[0]]).fetchone()
    if root is None or found is None:
        raise IndexFailed("the index in PostgreSQL", "a number was not given out")
    return root[0], found[0]


def _count(connection: psycopg.Connection[Any], totals: Mapping[int, Sequence[int]]) -> None:
    with connection.cursor() as cursor:
        cursor.executemany(
            "UPDATE recall_scopes SET docs = docs + %s, terms = terms + %s WHERE id = %s",
            [(docs, length, scope) for scope, (docs, length) in totals.items()],
        )


def open_postgres(address: str) -> tuple[WordIndex, Callable[[Embedder], Side]]:
    """The index of words, and what makes the vectors of an embedder."""
    from instar.memstore.recall.pgvectors import PostgresVectors  # noqa: PLC0415  (imports from here)

    session = Session(address)

    def side(embedder: Embedder) -> Side:
        vectors = PostgresVectors(Session(address), embedder.name)
        return Side(embedder, vectors, vectors)

    return PostgresWords(session), side
