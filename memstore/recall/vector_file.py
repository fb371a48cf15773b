"""Vectors in an SQLite file, by document: for exact search among few, and so that nothing is computed twice."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from instar.memstore.recall.derived_file import DerivedFile
from instar.memstore.recall.errors import IndexFailed
from instar.memstore.recall.index import Matrix, Vectors

FORMAT = 2
_SCHEMA = """
CREATE TABLE vectors(seq INTEGER PRIMARY KEY, root TEXT NOT NULL, vector BLOB NOT NULL);
CREATE INDEX vectors_root ON vectors(root, seq);
CREATE TABLE texts(embedder TEXT, digest TEXT, vector BLOB NOT NULL, PRIMARY KEY(embedder, digest)) WITHOUT ROWID;
CREATE TABLE meta(name TEXT PRIMARY KEY, value INTEGER NOT NULL);
"""


class VectorFile:
    """Half precision is enough to rank by: the error of a cosine stays below 0.001."""

    def __init__(self, path: Path | None) -> None:
        self._file = DerivedFile(path, _SCHEMA, FORMAT)

    def put(self, root: str, vectors: Vectors) -> None:
        """Keep vectors, in place of earlier ones.

        Raises:
            IndexFailed: those that are kept are of another length, so that an embedder changed under its name.
        """
        before = self._file.all("SELECT length(vector) FROM vectors WHERE root = ? LIMIT 1", (root,))
        if before and before[0][0] != 2 * vectors.matrix.shape[1]:
            reason = f"its vectors have {before[0][0] // 2} numbers, and the embedder gives {vectors.matrix.shape[1]}"
            raise IndexFailed(root, reason)
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

    def nearest(self, root: str, vector: Matrix, limit: int) -> Vectors:
        """The most similar vectors of a root, the best first: all of them are compared."""
        held = self.page(root, 0, 1 << 40)
        best = np.argsort(-held.cosines(root, vector), kind="stable")[:limit]
        return Vectors(held.seqs[best], held.matrix[best])

    def page(self, root: str, after: int, limit: int) -> Vectors:
        """The vectors of a root in order, behind a document."""
        return self._vectors(
            "SELECT seq, vector FROM vectors WHERE root = ? AND seq > ? ORDER BY seq LIMIT ?", (root, after, limit)
        )

    def through(self) -> int:
        """The last change that is in the file."""
        found = self._file.all("SELECT value FROM meta WHERE name = 'through'")
        return int(found[0][0]) if found else 0

    def advance(self, through: int) -> None:
        """Remember how far it has come."""
        self._write("INSERT OR REPLACE INTO meta VALUES('through', ?)", [(through,)])

    def count_of(self, root: str, *, most: int = 1 << 40) -> int:
        """How many vectors there are of a root, not counted beyond a number."""
        sql = "SELECT count(*) FROM (SELECT 1 FROM vectors WHERE root = ? LIMIT ?)"
        return int(self._file.all(sql, (root, most))[0][0])

    def roots(self) -> list[str]:
        """The roots that there are vectors of, each found by one step in the index."""
        sql = (
            "WITH RECURSIVE of(root) AS (SELECT min(root) FROM vectors"
            " UNION ALL SELECT (SELECT min(root) FROM vectors WHERE root > of.root) FROM of"
            " WHERE of.root IS NOT NULL)"
            " SELECT root FROM of WHERE root IS NOT NULL"
        )
        return [root for (root,) in self._file.all(sql)]

    def known(self, embedder: str, digests: Sequence[str]) -> dict[str, Matrix]:
        """Vectors of texts that were computed before, by the SHA-256 of the text."""
        found: dict[str, Matrix] = {}
        for digest in dict.fromkeys(digests):
            sql = "SELECT vector FROM texts WHERE embedder = ? AND digest = ?"
            for (vector,) in self._file.all(sql, (embedder, digest)):
                found[digest] = np.frombuffer(vector, np.float16).astype(np.float32)
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
        with self._file.writing() as connection:
            connection.execute("DELETE FROM meta")
            connection.execute("DELETE FROM vectors")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _vectors(self, sql: str, given: Sequence[str | int]) -> Vectors:
        rows = self._file.all(sql, given)
        if not rows:
            return Vectors(np.empty(0, np.int64), np.empty((0, 0), np.float32))
        seqs = np.fromiter((row[0] for row in rows), np.int64, len(rows))
        matrix = np.frombuffer(b"".join(row[1] for row in rows), np.float16).reshape(len(rows), -1)
        return Vectors(seqs, matrix.astype(np.float32))

    def _write(self, sql: str, rows: Sequence[Sequence[object]]) -> None:
        with self._file.writing() as connection:
            connection.executemany(sql, rows)
