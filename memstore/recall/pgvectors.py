"""Vectors in pgvector: a table for each embedder and scope root, in half precision; inverted lists for many of them.

In inverted lists (IVFFlat) each vector stands under the nearest of some centres, and a search compares those of the
lists whose centres are nearest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from math import isqrt
from typing import Any, LiteralString

import numpy as np
from psycopg import Connection
from psycopg.sql import SQL, Identifier, Literal

from instar.memstore.recall.chroma_vectors import suffix_of
from instar.memstore.recall.index import PATIENT, Matrix, Vectors
from instar.memstore.recall.pg_session import Session, listed

_SCHEMA: tuple[LiteralString, ...] = (
    "CREATE EXTENSION IF NOT EXISTS vector",
    "CREATE TABLE IF NOT EXISTS recall_vectors(name TEXT PRIMARY KEY, embedder TEXT NOT NULL, root TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS recall_cursors(embedder TEXT PRIMARY KEY, through BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS recall_texts(embedder TEXT, digest TEXT, vector BYTEA NOT NULL,"
    " PRIMARY KEY(embedder, digest))",
)
_HEADER = 4
"""Bytes before the numbers of a half vector: its dimensions, and two that are not used."""
_SETTINGS: LiteralString = "; SET ivfflat.probes = 40; SET ivfflat.iterative_scan = relaxed_order"
"""So many lists are looked through; where more is asked for than they hold, it is looked on."""
LISTED = 5_000
"""Up to so many vectors are compared one by one."""
_MOST_LISTS = 1_000
_INDEXES: LiteralString = (
    "SELECT one.relname, coalesce((SELECT option_value::int FROM pg_options_to_table(one.reloptions)"
    " WHERE option_name = 'lists'), 0) FROM pg_index JOIN pg_class one ON one.oid = indexrelid"
    " JOIN pg_am ON pg_am.oid = one.relam WHERE indrelid = to_regclass(%s) AND amname IN ('ivfflat', 'hnsw')"
)
"""The indexes of a table of vectors, with the number of lists of each; 0 for those that are made otherwise."""
_COPY_BEGIN, _COPY_END = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"


class PostgresVectors:
    """Vectors of one embedder, and the vectors of texts that cost something to compute."""

    def __init__(self, address: str, embedder: str) -> None:
        self._session, self._embedder = Session(address, _SETTINGS), suffix_of(embedder)
        self._known: set[str] = set()
        if self._session.all("SELECT to_regclass('recall_texts') IS NULL")[0][0]:
            with self._session.writing() as connection:
                for statement in _SCHEMA:
                    connection.execute(statement)

    def put(self, root: str, vectors: Vectors, *, within: float = PATIENT) -> None:
        """Add, or replace."""
        if not len(vectors.seqs):
            return
        with self._session.writing() as connection:
            table = self._table(connection, root, vectors.matrix.shape[1])
            connection.execute(SQL("DELETE FROM {} WHERE seq = ANY(%s)").format(table), [vectors.seqs.tolist()])
            with (
                connection.cursor() as cursor,
                cursor.copy(SQL("COPY {} FROM STDIN (FORMAT BINARY)").format(table)) as copy,
            ):
                copy.write(_COPY_BEGIN + _tuples(vectors) + _COPY_END)

    def take(self, root: str, seqs: Collection[int], *, within: float = PATIENT) -> None:
        """Delete."""
        if seqs and self._there(root):
            with self._session.writing() as connection:
                connection.execute(
                    SQL("DELETE FROM {} WHERE seq = ANY(%s::bigint[])").format(self._name(root)), [listed(seqs)]
                )

    def nearest(self, root: str, vector: Matrix, limit: int) -> Vectors:
        """By pgvector's lists."""
        if not self._there(root):
            return _vectors([])
        asked = "[" + ",".join(map(str, vector.tolist())) + "]"
        sql = SQL("SELECT seq, vector FROM {} ORDER BY vector <=> %s::halfvec LIMIT %s")
        return _vectors(self._session.all(sql.format(self._name(root)), [asked, limit]))

    def of(self, root: str, seqs: Collection[int]) -> Vectors:
        """Those that there are."""
        if not seqs or not self._there(root):
            return _vectors([])
        sql = SQL("SELECT seq, vector FROM {} WHERE seq = ANY(%s::bigint[])")
        return _vectors(self._session.all(sql.format(self._name(root)), [listed(seqs)]))

    def count(self) -> int:
        """Over all roots."""
        names = self._session.all("SELECT name FROM recall_vectors WHERE embedder = %s", [self._embedder])
        counts = (self._session.all(SQL("SELECT count(*) FROM {}").format(Identifier(row[0]))) for row in names)
        return sum(rows[0][0] for rows in counts)

    def through(self) -> int:
        """As remembered."""
        found = self._session.all("SELECT through FROM recall_cursors WHERE embedder = %s", [self._embedder])
        return int(found[0][0]) if found else 0

    def advance(self, through: int) -> None:
        """Remember it."""
        with self._session.writing() as connection:
            connection.execute(
                "INSERT INTO recall_cursors VALUES(%s, %s) ON CONFLICT (embedder) DO UPDATE"
                " SET through = greatest(recall_cursors.through, excluded.through)",
                [self._embedder, through],
            )

    def repair(self) -> int:
        """Sort the vectors of roots into lists that have become many, or four times as many since that was done."""
        made = 0
        for (name,) in self._session.all("SELECT name FROM recall_vectors WHERE embedder = %s", [self._embedder]):
            count = self._session.all(SQL("SELECT count(*) FROM {}").format(Identifier(name)))[0][0]
            lists = min(isqrt(count), _MOST_LISTS)
            there = dict(self._session.all(_INDEXES, [name]))
            if count > LISTED and not any(2 * number >= lists for number in there.values()):
                self._build(name, lists, there)
                made += 1
        return made

    def _build(self, name: str, lists: int, instead_of: Collection[str]) -> None:
        sql = SQL("CREATE INDEX IF NOT EXISTS {} ON {} USING ivfflat (vector halfvec_cosine_ops) WITH (lists = {})")
        with self._session.transaction() as connection:  # takes its time, and writes nothing that others write
            connection.execute("SET LOCAL maintenance_work_mem = '512MB'")
            connection.execute("SET LOCAL max_parallel_maintenance_workers = 2")
            index = Identifier(f"{name}_lists{lists}")
            connection.execute(sql.format(index, Identifier(name), Literal(lists)))
            connection.execute(SQL("ANALYZE {}").format(Identifier(name)))
            for one in instead_of:  # at the end, since nobody can search from here on until all of it is committed
                connection.execute(SQL("DROP INDEX IF EXISTS {}").format(Identifier(one)))

    def clear(self) -> None:
        """Drop the tables of this embedder."""
        with self._session.writing() as connection:
            for (name,) in connection.execute(
                "DELETE FROM recall_vectors WHERE embedder = %s RETURNING name", [self._embedder]
            ).fetchall():
                connection.execute(SQL("DROP TABLE IF EXISTS {}").format(Identifier(name)))
            connection.execute("DELETE FROM recall_cursors WHERE embedder = %s", [self._embedder])
        self._known.clear()

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    # Vectors of texts

    def known(self, embedder: str, digests: Sequence[str]) -> dict[str, Matrix]:
        """Those that were computed before."""
        rows = self._session.all(
            "SELECT digest, vector FROM recall_texts WHERE embedder = %s AND digest = ANY(%s)",
            [embedder, list(digests)],
        )
        return {digest: np.frombuffer(bytes(vector), np.float16).astype(np.float32) for digest, vector in rows}

    def learn(self, embedder: str, digests: Sequence[str], matrix: Matrix) -> None:
        """Keep them."""
        halves = matrix.astype(np.float16)
        with self._session.writing() as connection, connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO recall_texts VALUES(%s, %s, %s) ON CONFLICT DO NOTHING",
                [(embedder, digest, row.tobytes()) for digest, row in zip(digests, halves, strict=True)],
            )

    def forget(self) -> None:
        """Forget all of them."""
        with self._session.writing() as connection:
            connection.execute("TRUNCATE recall_texts")

    # Inside

    def _name(self, root: str) -> Identifier:
        return Identifier(self._plain_name(root))

    def _plain_name(self, root: str) -> str:
        return f"recall_v_{self._embedder}_{hashlib.sha256(root.encode()).hexdigest()[:20]}"

    def _there(self, root: str) -> bool:
        if root not in self._known:
            sql: LiteralString = "SELECT 1 FROM recall_vectors WHERE embedder = %s AND root = %s"
            if not self._session.all(sql, [self._embedder, root]):
                return False
            self._known.add(root)
        return True

    def _table(self, connection: Connection[Any], root: str, dimensions: int) -> Identifier:
        name = self._plain_name(root)
        if root not in self._known:
            statement = "CREATE TABLE IF NOT EXISTS {} (seq BIGINT PRIMARY KEY, vector HALFVEC({}) NOT NULL)"
            connection.execute(SQL(statement).format(Identifier(name), Literal(dimensions)))
            connection.execute(
                "INSERT INTO recall_vectors VALUES(%s, %s, %s) ON CONFLICT DO NOTHING",
                [name, self._embedder, root],
            )
            self._known.add(root)
        return Identifier(name)


def _vectors(rows: Sequence[tuple[int, bytes]]) -> Vectors:
    """From a sequence number and a half vector each, as they are sent."""
    if not rows:
        return Vectors(np.empty(0, np.int64), np.empty((0, 0), np.float32))
    seqs = np.fromiter((row[0] for row in rows), np.int64, len(rows))
    halves = np.frombuffer(b"".join(row[1] for row in rows), ">f2").reshape(len(rows), -1)
    return Vectors(seqs, halves[:, _HEADER // 2 :].astype(np.float32))


def _tuples(vectors: Vectors) -> bytes:
    """Rows of a sequence number and a half vector, as COPY takes them."""
    count, dimensions = vectors.matrix.shape
    size = _HEADER + 2 * dimensions
    number, length = ">i2", ">i4"
    layout = [("fields", number), ("first", length), ("seq", ">i8"), ("second", length), ("dimensions", number)]
    rows = np.zeros(count, np.dtype([*layout, ("unused", number), ("vector", ">f2", (dimensions,))]))
    rows["fields"], rows["first"], rows["second"], rows["dimensions"] = 2, 8, size, dimensions
    rows["seq"], rows["vector"] = vectors.seqs, vectors.matrix
    return rows.tobytes()
