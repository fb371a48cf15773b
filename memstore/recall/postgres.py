"""The index of words in the database of the pages: hashes of terms under GIN, and beside them what is ranked by.

Terms are made here, not by the text search parser of the server, so that both back ends find the same. As in SQLite
every term carries its scope root: what is indexed is a hash of 32 bits of both, which keeps the rows that a common
term leads to few to a page of disk. Where two terms share a hash, a page too many is looked at, and dropped again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import LiteralString

import numpy as np

from instar.memstore.recall.documents import Doc, root_of
from instar.memstore.recall.embedders import Embedder
from instar.memstore.recall.feed import Side
from instar.memstore.recall.index import NOTED_WITHIN, Row, Seqs, Wanted, WordIndex, counts_in
from instar.memstore.recall.pg_session import Session, listed
from instar.memstore.recall.pg_tables import (
    DERIVED,
    FORMAT_NAME,
    SCHEMA,
    format_of,
    is_made,
    put,
    remember,
    take,
    term_hash,
)

FORMAT = 3
_THROUGH = "through"
_FOREVER = 1 << 62
_FEW = 20_000
"""Below so many documents it does not matter how common a term is."""
# Numbers travel as bytes, since to read thousands of rows takes longer than to find them. They are not sorted here:
# the planner would read from the newest on, and look at everything where the term is rare.
_HELD: LiteralString = (
    "SELECT (SELECT string_agg(int8send(seq), '') FROM recall_terms"
    " WHERE terms @> (%s::int[] || asked.term) AND created >= %s AND created < %s)"
    " FROM unnest(%s::int[]) WITH ORDINALITY AS asked(term, place) ORDER BY place"
)
_HELD_BESIDE: LiteralString = _HELD.replace("created <", "terms && array_remove(%s::int[], asked.term) AND created <")
_REMEMBERED = 60.0
"""Seconds for which the shares of common terms are not asked for again."""


class PostgresWords:
    """The index of words."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._added, self._documents = 0, 0
        """Documents since the statistics were last made, and before that."""
        self._common: tuple[float, Mapping[int, float]] = (0.0, {})
        self._sizes: dict[str, int] = {}
        """Documents of roots, as they were when the former was asked."""
        with session.transaction() as connection:
            made = is_made(connection, FORMAT)
        if not made:  # who finds it made need not wait for who writes it
            with session.writing() as connection:
                if format_of(connection) not in (None, str(FORMAT)):
                    connection.execute(f"DROP TABLE IF EXISTS {DERIVED}")
                for statement in SCHEMA:
                    connection.execute(statement)
                remember(connection, FORMAT_NAME, str(FORMAT))

    # The writer's side

    def turn(self, within: float) -> AbstractContextManager[None]:
        """By a lock that the server keeps."""
        return self._session.turn(within)

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
            remember(connection, name, value)

    def apply(self, docs: Sequence[Doc], gone: Collection[int], through: int) -> None:
        """Put, take out, remember how far; a batch that another process was faster with changes nothing."""
        with self._session.writing() as connection:
            found = connection.execute("SELECT value FROM recall_meta WHERE name = %s", [_THROUGH]).fetchone()
            if found and int(found[0]) >= through:
                return
            take(connection, [*gone, *(doc.seq for doc in docs)])
            put(connection, docs)
            remember(connection, _THROUGH, str(through))
        self._added += len(docs)
        if self._added > max(_FEW, self._documents // 2):
            self._documents += self._added
            self._added = 0
            self._session.alone("ANALYZE recall_terms")
            self._common = (0.0, {})

    def withdraw(self, seqs: Collection[int]) -> None:
        """Take out documents that the store still has."""
        with self._session.writing() as connection:
            take(connection, seqs)

    def note_shown(self, shown: Mapping[int, int]) -> None:
        """Add to how often documents were shown."""
        with self._session.writing(NOTED_WITHIN) as connection, connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO recall_shown VALUES(%s, %s)"
                " ON CONFLICT (seq) DO UPDATE SET times = recall_shown.times + excluded.times",
                list(shown.items()),
            )

    def fade(self, share: float) -> None:
        """Count for less what was shown before."""
        with self._session.writing() as connection:
            connection.execute("UPDATE recall_shown SET times = floor(times * %s::float8)", [share])
            connection.execute("DELETE FROM recall_shown WHERE times = 0")

    def shown(self, seqs: Collection[int]) -> dict[int, int]:
        """How often each of these documents was shown."""
        sql: LiteralString = "SELECT seq, times FROM recall_shown WHERE seq = ANY(%s::bigint[])"
        return dict(self._session.all(sql, [listed(seqs)]))

    def clear(self) -> None:
        """Forget everything but how often what was shown; the settings too."""
        with self._session.writing() as connection:
            connection.execute(f"TRUNCATE {DERIVED}")
            remember(connection, FORMAT_NAME, str(FORMAT))
        self._added = self._documents = 0
        self._common = (0.0, {})

    def purge(self) -> None:
        """Rewrite the tables, so that nothing of what was taken out stays on their pages."""
        self._session.alone("VACUUM FULL recall_docs")
        self._session.alone("VACUUM FULL recall_terms")

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    # Reading

    def holding(self, wanted: Wanted, terms: Sequence[str], limit: int) -> Seqs:
        """The newest documents that hold all of these terms."""
        if asked := (*wanted.marks, *terms):
            return self._held(wanted, asked[:-1], asked[-1:], limit)[0]
        sql: LiteralString = (
            "SELECT seq FROM recall_docs WHERE scope IN (SELECT id FROM recall_scopes"
            " WHERE root = (SELECT id FROM recall_roots WHERE name = %s))"
            " AND created >= %s AND created < %s ORDER BY seq DESC LIMIT %s"
        )
        since, until = wanted.since or -_FOREVER, wanted.until or _FOREVER
        rows = self._session.all(sql, (root_of(wanted.scope), since, until, limit))
        return np.fromiter((row[0] for row in rows), np.int64, len(rows))

    def each(self, wanted: Wanted, terms: Sequence[str], limit: int, *, beside: Sequence[str] = ()) -> list[Seqs]:
        """In one statement."""
        return self._held(wanted, wanted.marks, terms, limit, beside) if terms else []

    def _held(
        self, wanted: Wanted, all_of: Sequence[str], each_of: Sequence[str], limit: int, beside: Sequence[str] = ()
    ) -> list[Seqs]:
        """The newest documents that hold all of the first, and one of the second (and another one of the third)."""
        root = root_of(wanted.scope)
        every, each, others = (listed(term_hash(root, term) for term in given) for given in (all_of, each_of, beside))
        since, until = wanted.since or -_FOREVER, wanted.until or _FOREVER
        if beside:
            rows = self._session.all(_HELD_BESIDE, (every, since, others, until, each))
        else:
            rows = self._session.all(_HELD, (every, since, until, each))
        return [_seqs(row[0])[:limit] for row in rows]

    def shares(self, scope: str, terms: Sequence[str]) -> dict[str, float]:
        """As the statistics of the database tell, which are made anew as the index grows."""
        if self._common[0] < time.monotonic():
            self._common, self._sizes = (time.monotonic() + _REMEMBERED, self._frequencies()), {}
        root = root_of(scope)
        counts = {term: self._common[1].get(term_hash(root, term)) for term in terms}
        if not any(counts.values()):
            return {}
        if root not in self._sizes:
            self._sizes[root] = max(self.totals(root)[0], 1)
        return {term: min(count / self._sizes[root], 1.0) for term, count in counts.items() if count}

    def _frequencies(self) -> dict[int, float]:
        """About how many documents hold each of the most common terms."""
        rows = self._session.all(
            "SELECT reltuples::float8, most_common_elems::text::int[], most_common_elem_freqs::float8[]"
            " FROM pg_stats JOIN pg_class ON pg_class.oid = 'recall_terms'::regclass"
            " WHERE schemaname = current_schema() AND tablename = 'recall_terms' AND attname = 'terms'"
            " AND reltuples > %s AND most_common_elems IS NOT NULL",
            [float(_FEW)],
        )
        # Behind the frequencies of the elements stand three more numbers.
        return {one: share * rows for rows, ones, shares in rows for one, share in zip(ones, shares, strict=False)}

    def rows(self, seqs: Collection[int], wanted: Wanted, terms: Sequence[str] = ()) -> list[Row]:
        """Those that are wanted."""
        asked = frozenset(wanted.marks)
        needles = {term: f" {term} " for term in terms}
        found = self._session.all(
            "SELECT seq, id, session, length, words, counts, CASE WHEN %s THEN marks END FROM recall_docs"
            " WHERE seq = ANY(%s::bigint[]) AND (expires IS NULL OR expires > %s) AND created >= %s AND created < %s",
            (bool(asked), listed(seqs), wanted.now, wanted.since or -_FOREVER, wanted.until or _FOREVER),
        )
        return [
            Row(seq, name, session, length, counts_in(words, bytes(counted), needles))
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
            (listed(row.session for row in here), listed(row.seq for row in here)),
        )
        return {seq: (before or 0, after or 0) for seq, before, after in found}

    def names(self, seqs: Collection[int]) -> dict[int, str]:
        """Page ids."""
        return dict(
            self._session.all("SELECT seq, id FROM recall_docs WHERE seq = ANY(%s::bigint[])", [listed(seqs)])
        )

    def totals(self, scope: str) -> tuple[int, int]:
        """Documents and terms in and below a scope."""
        docs, length = self._session.all(
            "SELECT coalesce(sum(docs), 0)::bigint, coalesce(sum(terms), 0)::bigint FROM recall_scopes"
            " WHERE path = %s OR path > %s AND path < %s",
            (scope, scope + "/", scope + "0"),
        )[0]
        return docs, length


def _seqs(packed: bytes | None) -> Seqs:
    """The newest first."""
    return np.sort(np.frombuffer(packed or b"", ">i8").astype(np.int64))[::-1]


def open_postgres(address: str) -> tuple[WordIndex, Callable[[Embedder], Side]]:
    """The index of words, and what makes the vectors of an embedder."""
    from instar.memstore.recall.pgvectors import PostgresVectors  # noqa: PLC0415  (imports from here)

    session = Session(address)

    def side(embedder: Embedder) -> Side:
        vectors = PostgresVectors(address, embedder.name)
        return Side(embedder, vectors, vectors)

    return PostgresWords(session), side
