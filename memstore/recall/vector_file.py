"""Vectors in an SQLite file, by document: for exact search among few, and so that nothing is computed twice."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from instar.memstore.recall.errors import IndexFailed
from instar.memstore.recall.index import Matrix, Vectors

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS vectors(seq INTEGER PRIMARY KEY, root TEXT NOT NULL, vector BLOB NOT NULL)",
    "CREATE INDEX IF NOT EXISTS vectors_root ON vectors(root, seq)",
    "CREATE TABLE IF NOT EXISTS texts(embedder TEXT, digest TEXT, vector BLOB NOT NULL,"
    " PRIMARY KEY(embedder, digest)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS meta(name TEXT PRIMARY KEY, value INTEGER NOT NULL)",
)


class VectorFile:
    """Half precision is enough to rank by: the error of a cosine stays below 0.001."""

    def __init__(self, path: Path | None, *, busy_timeout: float = 30.0) -> None:
        self._path = path
        self._lock = threading.RLock()
        with self._translated():
            self._connection = connect(path, busy_timeout)
            for statement in _SCHEMA:
                self._connection.execute(statement)

    def put(self, root: str, vectors: Vectors) -> None:
        """Keep vectors, in place of earlier ones."""
        rows = [
            (int(seq), root, row.tobytes())
            for seq, row in zip(vectors.seqs, vectors.matrix.astype(np.float16), strict=True)
        ]
        self._write("INSERT OR REPLACE INTO vectors VALUES(?, ?, ?)", rows)

    def take(self, seqs: Collection[int]) -> None:
        """Forget vectors."""
        self._write("DELETE FROM vectors WHERE seq = ?", [(int(seq),) for seq in seqs])

    def of(self, root: str, seqs: Collection[int]) -> Vectors:
        """The vectors of those documents of a root that have one."""
        numbers = ",".join(str(int(seq)) for seq in seqs)
        sql = f"SELECT seq, vector FROM vectors WHERE seq IN ({numbers}) AND root = ?"  # noqa: S608  (numbers)
        return self._vectors(sql, (root,))

    def page(self, root: str, after: int, limit: int) -> Vectors:
        """The vectors of a root in order, behind a document."""
        return self._vectors(
            "SELECT seq, vector FROM vectors WHERE root = ? AND seq > ? ORDER BY seq LIMIT ?", (root, after, limit)
        )

    def through(self) -> int:
        """The last change that is in the file."""
        with self._translated(), self._lock:
            found = self._connection.execute("SELECT value FROM meta WHERE name = 'through'").fetchone()
        return int(found[0]) if found else 0

    def advance(self, through: int) -> None:
        """Remember how far it has come."""
        self._write("INSERT OR REPLACE INTO meta VALUES('through', ?)", [(through,)])

    def count_of(self, root: str) -> int:
        """How many vectors there are of a root."""
        with self._translated(), self._lock:
            return int(self._connection.execute("SELECT count(*) FROM vectors WHERE root = ?", (root,)).fetchone()[0])

    def counts(self) -> dict[str, int]:
        """How many vectors there are of each root."""
        with self._translated(), self._lock:
            return dict(self._connection.execute("SELECT root, count(*) FROM vectors GROUP BY root").fetchall())

    def known(self, embedder: str, digests: Sequence[str]) -> dict[str, Matrix]:
        """Vectors of texts that were computed before, by the SHA-256 of the text."""
        found: dict[str, Matrix] = {}
        with self._translated(), self._lock:
            for digest in dict.fromkeys(digests):
                row = self._connection.execute(
                    "SELECT vector FROM texts WHERE embedder = ? AND digest = ?", (embedder, digest)
                ).fetchone()
                if row:
                    found[digest] = np.frombuffer(row[0], np.float16).astype(np.float32)
        return found

    def learn(self, embedder: str, digests: Sequence[str], matrix: Matrix) -> None:
        """Keep vectors of texts."""
        rows = [
            (embedder, digest, row.tobytes()) for digest, row in zip(digests, matrix.astype(np.float16), strict=True)
        ]
        self._write("INSERT OR REPLACE INTO texts VALUES(?, ?, ?)", rows)

    def forget(self) -> None:
        """Forget the vectors of texts."""
        self._write("DELETE FROM texts", [()])

    def clear(self) -> None:
        """Forget the vectors of documents."""
        self._write("DELETE FROM meta", [()])
        self._write("DELETE FROM vectors", [()])

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def _vectors(self, sql: str, given: Sequence[str | int]) -> Vectors:
        with self._translated(), self._lock:
            rows = self._connection.execute(sql, given).fetchall()
        if not rows:
            return Vectors(np.empty(0, np.int64), np.empty((0, 0), np.float32))
        seqs = np.fromiter((row[0] for row in rows), np.int64, len(rows))
        matrix = np.frombuffer(b"".join(row[1] for row in rows), np.float16).reshape(len(rows), -1)
        return Vectors(seqs, matrix.astype(np.float32))

    def _write(self, sql: str, rows: Sequence[Sequence[object]]) -> None:
        with self._translated(), self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.executemany(sql, rows)
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise IndexFailed(str(self._path or "memory"), str(error)) from error


def connect(path: Path | None, busy_timeout: float) -> sqlite3.Connection:
    """A file of derived data, readable by its owner only; memory where the path is None."""
    if path is not None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
    connection = sqlite3.connect(
        path or ":memory:", timeout=busy_timeout, check_same_thread=False, isolation_level=None
    )
    try:
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "secure_delete=ON", "cache_size=-64000"):
            connection.execute(f"PRAGMA {pragma}").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection
