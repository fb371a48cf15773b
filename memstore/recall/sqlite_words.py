"""The index of words in an SQLite file beside the store: FTS5 keeps the terms, a table what is ranked by.

A file of its own, so that building it never holds up a commit, and losing it loses nothing. Every term carries the
number of its scope root: the postings of one root are never read for another. FTS5's own `bm25()` is not used, since
it reads the postings of every term to their end.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np

from instar.memstore.recall.derived_file import DerivedFile
from instar.memstore.recall.documents import Doc, root_of
from instar.memstore.recall.index import NOTED_WITHIN, Row, Seqs, Wanted, counts_in
from instar.memstore.recall.turn import FileTurn

FORMAT = 3
_SCHEMA = """
CREATE TABLE meta(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE roots(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE scopes(
    id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, root INTEGER NOT NULL,
    docs INTEGER NOT NULL DEFAULT 0, terms INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE docs(
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL, scope INTEGER NOT NULL, session INTEGER NOT NULL,
    created INTEGER NOT NULL, expires INTEGER, length INTEGER NOT NULL,
    words TEXT NOT NULL, counts BLOB NOT NULL, marks TEXT NOT NULL
);
CREATE TABLE shown(seq INTEGER PRIMARY KEY, times INTEGER NOT NULL);
CREATE INDEX docs_session ON docs(session, seq) WHERE session != 0;
CREATE INDEX docs_scope ON docs(scope, seq);
CREATE VIRTUAL TABLE lex USING fts5(terms, content='', columnsize=0, detail=none, tokenize="ascii tokenchars '_'");
"""
_TIMES = "CREATE INDEX IF NOT EXISTS docs_created ON docs(scope, created)"
"""Beside the schema: files that were made without it are as good once they have it."""
_SORTED = 20_000
_THROUGH = "through"


class SqliteWords:
    """A file, or memory where the path is None. Several processes may use one file; writers take turns."""

    def __init__(self, path: Path | None) -> None:
        self._file = DerivedFile(path, _SCHEMA, FORMAT)
        self._file.all(_TIMES)
        self._turn = FileTurn(path and path.with_name("writer.lock"))

    # The writer's side

    def turn(self, within: float) -> AbstractContextManager[None]:
        """By a lock on a file beside this one."""
        return self._turn.taken(within)

    def through(self) -> int:
        """The last change that is in the index."""
        return int(self.settings().get(_THROUGH, "0"))

    def roots(self) -> list[str]:
        """The scope roots that there are."""
        return [row[0] for row in self._file.all("SELECT name FROM roots ORDER BY name")]

    def settings(self) -> dict[str, str]:
        """What was remembered beside the documents."""
        return dict(self._file.all("SELECT name, value FROM meta"))

    def remember(self, name: str, value: str) -> None:
        """Remember something beside the documents."""
        with self._file.writing() as connection:
            connection.execute("INSERT OR REPLACE INTO meta VALUES(?, ?)", (name, value))

    def apply(self, docs: Sequence[Doc], gone: Collection[int], through: int) -> None:
        """Put, take out, remember how far; a batch that another process was faster with changes nothing."""
        with self._file.writing() as connection:
            found = connection.execute("SELECT value FROM meta WHERE name = ?", (_THROUGH,)).fetchone()
            if found and int(found[0]) >= through:
                return
            self._take(connection, [*gone, *(doc.seq for doc in docs)])
            self._put(connection, docs)
            connection.execute("INSERT OR REPLACE INTO meta VALUES(?, ?)", (_THROUGH, str(through)))

    def withdraw(self, seqs: Collection[int]) -> None:
        """Take out documents that the store still has."""
        with self._file.writing() as connection:
            self._take(connection, seqs)

    def note_shown(self, shown: Mapping[int, int]) -> None:
        """Add to how often documents were shown."""
        sql = "INSERT INTO shown VALUES(?, ?) ON CONFLICT(seq) DO UPDATE SET times = times + excluded.times"
        with self._file.writing(NOTED_WITHIN) as connection:
            connection.executemany(sql, list(shown.items()))

    def fade(self, share: float) -> None:
        """Count for less what was shown before."""
        with self._file.writing() as connection:
            connection.execute("UPDATE shown SET times = CAST(times * ? AS INTEGER)", (share,))
            connection.execute("DELETE FROM shown WHERE times = 0")

    def shown(self, seqs: Collection[int]) -> dict[int, int]:
        """How often each of these documents was shown."""
        return dict(self._file.all(f"SELECT seq, times FROM shown WHERE seq IN ({_numbers(seqs)})"))  # noqa: S608

    def clear(self) -> None:
        """Forget everything but how often what was shown; the settings too."""
        with self._file.writing() as connection:
            connection.execute("INSERT INTO lex(lex) VALUES('delete-all')")
            for table in ("docs", "scopes", "roots", "meta"):
                connection.execute(f"DELETE FROM {table}")  # noqa: S608  (constants)

    def purge(self) -> None:
        """Merge the postings into one segment, which drops the terms of what was taken out, and fold the log."""
        with self._file.writing() as connection:
            connection.execute("INSERT INTO lex(lex) VALUES('optimize')")
        self._file.fold()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _put(self, connection: sqlite3.Connection, docs: Sequence[Doc]) -> None:
        rows, lexemes, totals = [], [], dict[int, list[int]]()
        for doc in docs:
            root, scope = self._place(connection, doc.scope)
            length = sum(doc.words.values())
            words, marks = " ".join(doc.words), " ".join(doc.marks)
            counted = bytes(doc.words.values())
            rows.append(
                (doc.seq, doc.id, scope, doc.session, doc.created, doc.expires, length, words, counted, marks)
            )
            lexemes.append((doc.seq, _lexemes(root, words, marks)))
            total = totals.setdefault(scope, [0, 0])
            total[0] += 1
            total[1] += length
        connection.executemany("INSERT INTO docs VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        connection.executemany("INSERT INTO lex(rowid, terms) VALUES(?, ?)", lexemes)
        _count(connection, totals)

    def _take(self, connection: sqlite3.Connection, seqs: Collection[int]) -> None:
        found = connection.execute(
            "SELECT seq, scope, root, length, words, marks FROM docs JOIN scopes ON scopes.id = docs.scope"  # noqa: S608
            f" WHERE seq IN ({_numbers(seqs)})"
        ).fetchall()
        totals = dict[int, list[int]]()
        for seq, scope, root, length, words, marks in found:
            connection.execute(
                "INSERT INTO lex(lex, rowid, terms) VALUES('delete', ?, ?)", (seq, _lexemes(root, words, marks))
            )
            total = totals.setdefault(scope, [0, 0])
            total[0] -= 1
            total[1] -= length
        connection.executemany("DELETE FROM docs WHERE seq = ?", [(row[0],) for row in found])
        _count(connection, totals)

    def _place(self, connection: sqlite3.Connection, scope: str) -> tuple[int, int]:
        """The numbers of a scope and its root, given out on first sight."""
        name = root_of(scope)
        root = connection.execute("SELECT id FROM roots WHERE name = ?", (name,)).fetchone()
        if root is None:
            root = (connection.execute("INSERT INTO roots(name) VALUES(?)", (name,)).lastrowid,)
        found = connection.execute("SELECT id FROM scopes WHERE path = ?", (scope,)).fetchone()
        if found is None:
            made = connection.execute("INSERT INTO scopes(path, root) VALUES(?, ?)", (scope, root[0]))
            found = (made.lastrowid,)
        return root[0], found[0]

    # Reading

    def holding(self, wanted: Wanted, terms: Sequence[str], limit: int) -> Seqs:
        """The newest documents that hold all of these terms."""
        root = self._root(wanted.scope)
        if root is None:
            return _seqs(())
        if wanted.marks or terms:
            return self._held(root, wanted, terms, limit)
        if wanted.since is not None or wanted.until is not None:
            return self._between(root, wanted.since or -_FOREVER, wanted.until or _FOREVER, limit)
        sql = "SELECT seq FROM docs JOIN scopes ON scopes.id = docs.scope WHERE root = ? ORDER BY seq DESC LIMIT ?"
        return _seqs(self._file.all(sql, (root, limit)))

    def _between(self, root: int, since: int, until: int, limit: int) -> Seqs:
        """The newest of a time: few are sorted; where they are many, the newest documents are looked through."""
        span = "scope IN (SELECT id FROM scopes WHERE root = ?) AND created >= ? AND created < ?"
        given = (root, since, until)
        sql = f"SELECT count(*) FROM (SELECT 1 FROM docs WHERE {span} LIMIT {_SORTED + 1})"  # noqa: S608  (constants)
        if self._file.all(sql, given)[0][0] <= _SORTED:
            found = _seqs(self._file.all(f"SELECT seq FROM docs WHERE {span}", given))  # noqa: S608  (constants)
            return np.sort(found)[::-1][:limit]
        sql = f"SELECT seq FROM docs NOT INDEXED WHERE {span} ORDER BY seq DESC LIMIT ?"  # noqa: S608  (constants)
        return _seqs(self._file.all(sql, (*given, limit)))

    def each(self, wanted: Wanted, terms: Sequence[str], limit: int, *, beside: Sequence[str] = ()) -> list[Seqs]:
        """One after the other, which costs no round trips here."""
        root = self._root(wanted.scope)
        if root is None:
            return [_seqs(()) for _ in terms]
        others = [[other for other in beside if other != term] for term in terms]
        return [
            _seqs(()) if beside and not one_of else self._held(root, wanted, [term], limit, one_of)
            for term, one_of in zip(terms, others, strict=True)
        ]

    def _held(self, root: int, wanted: Wanted, terms: Sequence[str], limit: int, one_of: Sequence[str] = ()) -> Seqs:
        match = " AND ".join(_quoted(root, term) for term in (*wanted.marks, *terms))
        if one_of:
            match += f" AND ({' OR '.join(_quoted(root, term) for term in one_of)})"
        if wanted.since is None and wanted.until is None:
            sql = "SELECT rowid FROM lex WHERE lex MATCH ? ORDER BY rowid DESC LIMIT ?"
            return _seqs(self._file.all(sql, (match, limit)))
        sql = (
            "SELECT lex.rowid FROM lex CROSS JOIN docs ON docs.seq = lex.rowid"
            " WHERE lex MATCH ? AND created >= ? AND created < ? ORDER BY lex.rowid DESC LIMIT ?"
        )
        return _seqs(self._file.all(sql, (match, wanted.since or -_FOREVER, wanted.until or _FOREVER, limit)))

    def rows(self, seqs: Collection[int], wanted: Wanted, terms: Sequence[str] = ()) -> list[Row]:
        """Those that are wanted."""
        asked = frozenset(wanted.marks)
        needles = {term: f" {term} " for term in terms}
        sql = (
            f"SELECT seq, id, session, length, words, counts, marks FROM docs WHERE seq IN ({_numbers(seqs)})"  # noqa: S608
            " AND (expires IS NULL OR expires > ?) AND created >= ? AND created < ?"
        )
        given = (wanted.now, wanted.since or -_FOREVER, wanted.until or _FOREVER)
        return [
            Row(seq, name, session, length, counts_in(words, counted, needles))
            for seq, name, session, length, words, counted, marks in self._file.all(sql, given)
            if not asked or asked.issubset(marks.split(" "))
        ]

    def beside(self, rows: Sequence[Row]) -> Mapping[int, tuple[int, int]]:
        """The documents before and after each in its session."""
        pairs = ",".join(f"({row.session},{row.seq})" for row in rows if row.session)
        if not pairs:
            return {}
        sql = (
            f"WITH of(session, seq) AS (VALUES {pairs}) SELECT seq,"  # noqa: S608  (numbers)
            " (SELECT max(d.seq) FROM docs d WHERE d.session = of.session AND d.session != 0 AND d.seq < of.seq),"
            " (SELECT min(d.seq) FROM docs d WHERE d.session = of.session AND d.session != 0 AND d.seq > of.seq)"
            " FROM of"
        )
        return {seq: (before or 0, after or 0) for seq, before, after in self._file.all(sql)}

    def names(self, seqs: Collection[int]) -> dict[int, str]:
        """Page ids."""
        return dict(self._file.all(f"SELECT seq, id FROM docs WHERE seq IN ({_numbers(seqs)})"))  # noqa: S608

    def totals(self, scope: str) -> tuple[int, int]:
        """Documents and terms in and below a scope."""
        sql = "SELECT total(docs), total(terms) FROM scopes WHERE path = ? OR path > ? AND path < ?"
        docs, length = self._file.all(sql, (scope, scope + "/", scope + "0"))[0]
        return int(docs), int(length)

    def shares(self, scope: str, terms: Sequence[str]) -> dict[str, float]:
        """None is known. Postings are read from the newest on, so that a common term costs no more than others."""
        return {}

    # Inside

    def _root(self, scope: str) -> int | None:
        name = root_of(scope)
        found = self._file.all("SELECT id FROM roots WHERE name = ?", (name,))
        return found[0][0] if found else None


_FOREVER = 1 << 62


def _quoted(root: int, term: str) -> str:
    """A term or a mark as FTS5 looks for it; neither holds a quote."""
    return f'"{root}{term}"' if term[0] == "_" else f'"{root}_{term}"'


def _lexemes(root: int, words: str, marks: str) -> str:
    """Everything a document is found by, each with the number of the root before it."""
    said = [f"{root}_{word}" for word in words.split(" ")] if words else []
    return " ".join([*said, *(f"{root}{sign}" for sign in marks.split(" "))])


def _count(connection: sqlite3.Connection, totals: Mapping[int, Sequence[int]]) -> None:
    connection.executemany(
        "UPDATE scopes SET docs = docs + ?, terms = terms + ? WHERE id = ?",
        [(docs, length, scope) for scope, (docs, length) in totals.items()],
    )


def _numbers(seqs: Iterable[int]) -> str:
    """Numbers between commas, and nothing else."""
    return ",".join(str(int(seq)) for seq in seqs)


def _seqs(rows: Sequence[tuple[int]]) -> Seqs:
    return np.fromiter((row[0] for row in rows), np.int64, len(rows))
