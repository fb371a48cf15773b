"""What the index in PostgreSQL does beyond the contract: statistics, lists that are built at once, formats."""

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import psycopg
import pytest

from instar.memstore import open_store
from instar.memstore.fakes import ALICE, write
from instar.memstore.recall import Status, open_recall
from instar.memstore.recall.documents import Doc, mark
from instar.memstore.recall.errors import IndexFailed
from instar.memstore.recall.index import Vectors, Wanted
from instar.memstore.recall.pg_session import _LOCK, Session
from instar.memstore.recall.pgvectors import LISTED, PostgresVectors
from instar.memstore.recall.postgres import PostgresWords
from instar.memstore.recall.sqlite_words import SqliteWords
from instar.memstore.recall.testing import say


def doc(seq: int, *words: str, scope: str = "local") -> Doc:
    return Doc(seq, f"p{seq}", scope, 0, seq, None, dict.fromkeys(words, 1), (mark("kind", "note"),), "", "")


@pytest.fixture
def words(postgres: str) -> Iterator[PostgresWords]:
    index = PostgresWords(Session(postgres))
    yield index
    index.close()


@pytest.fixture
def vectors(postgres: str) -> Iterator[PostgresVectors]:
    index = PostgresVectors(postgres, "of-tests")
    yield index
    index.clear()
    index.close()


def unit(count: int) -> np.ndarray:
    found = np.random.default_rng(5).normal(size=(count, 16)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def test_terms_asked_for_together_are_found_as_each_by_itself(words: PostgresWords) -> None:
    words.apply([doc(1, "lamp", "red"), doc(2, "lamp"), doc(3, "red"), doc(4, "lamp", scope="elsewhere")], [], 4)
    wanted = Wanted("local", (mark("kind", "note"),))
    together = [found.tolist() for found in words.each(wanted, ["lamp", "red", "blue"], 9)]
    assert together == [words.holding(wanted, [term], 9).tolist() for term in ("lamp", "red", "blue")]
    assert together == [[2, 1], [3, 1], []]


def test_terms_beside_others_are_found_as_in_sqlite(words: PostgresWords) -> None:
    made = [doc(1, "lamp", "red"), doc(2, "lamp"), doc(3, "red"), doc(4, "lamp", "blue"), doc(5, "blue", "green")]
    words.apply(made, [], 5)
    with closing(SqliteWords(None)) as lite:
        lite.apply(made, [], 5)
        for index in (words, lite):
            found = index.each(Wanted("local"), ["lamp", "red", "blue"], 9, beside=["lamp", "red", "blue"])
            assert [seqs.tolist() for seqs in found] == [[4, 1], [1], [4]]
            assert [seqs.tolist() for seqs in index.each(Wanted("local"), ["lamp"], 9, beside=["lamp"])] == [[]]


def test_the_shares_of_common_terms_are_known_once_there_are_many_documents(words: PostgresWords) -> None:
    made = [doc(n, "order", *(["half"] if n % 2 else []), f"only{n}") for n in range(1, 10_001)]
    made += [doc(n, "order", scope="elsewhere") for n in range(10_001, 21_001)]
    words.apply(made, [], 21_000)
    shares = words.shares("local/desk", ["order", "half", "only7", "never"])
    assert shares == pytest.approx({"order": 1.0, "half": 0.5}, abs=0.05)


def test_many_vectors_are_sorted_into_lists_and_are_found_before_and_after(vectors: PostgresVectors) -> None:
    matrix = unit(LISTED + 1)
    seqs = np.arange(1, LISTED + 2)
    vectors.put("local", Vectors(seqs, matrix))
    vectors.put("small", Vectors(seqs[:10], matrix[:10]))
    assert vectors.nearest("local", matrix[7], 3).seqs[0] == 8
    assert (vectors.repair(), vectors.repair()) == (1, 0)
    found = vectors.nearest("local", matrix[7], 3)
    assert (found.seqs[0], found.cosines("local", matrix[7])[0]) == (8, pytest.approx(1, abs=0.001))
    assert len(vectors.nearest("local", matrix[7], LISTED).seqs) == LISTED


def test_lists_are_made_anew_when_there_are_four_times_as_many_vectors(
    postgres: str, vectors: PostgresVectors
) -> None:
    matrix = unit(4 * LISTED + 600)
    seqs = np.arange(1, len(matrix) + 1)
    vectors.put("local", Vectors(seqs[: LISTED + 1], matrix[: LISTED + 1]))
    assert (vectors.repair(), lists(postgres)) == (1, [70])
    vectors.put("local", Vectors(seqs[LISTED + 1 : -1_000], matrix[LISTED + 1 : -1_000]))
    assert (vectors.repair(), lists(postgres)) == (0, [70])
    vectors.put("local", Vectors(seqs[-1_000:], matrix[-1_000:]))
    assert (vectors.repair(), lists(postgres)) == (1, [143])
    assert vectors.nearest("local", matrix[-1], 3).seqs[0] == seqs[-1]


def test_a_graph_from_an_earlier_version_gives_way_to_lists(postgres: str, vectors: PostgresVectors) -> None:
    vectors.put("local", Vectors(np.arange(1, LISTED + 2), unit(LISTED + 1)))
    with psycopg.connect(postgres.replace("+psycopg", "")) as connection:
        (name,) = connection.execute("SELECT name FROM recall_vectors WHERE root = 'local'").fetchone()
        connection.execute(f"CREATE INDEX {name}_graph ON {name} USING hnsw (vector halfvec_cosine_ops)")
    assert (vectors.repair(), lists(postgres)) == (1, [70])


def test_who_waited_for_others_does_not_wait_for_ever_afterwards(postgres: str) -> None:
    session = Session(postgres)
    session.alone("ANALYZE")
    assert session.all("SHOW lock_timeout") == [("5s",)]
    session.close()


def test_nobody_who_opens_and_searches_waits_for_who_writes(postgres: str) -> None:
    with open_store(postgres) as store:
        write(store, say("the red lamp", id="a"))
        with open_recall(store, address=postgres, folder=None) as recall:
            recall.catch_up()
        with psycopg.connect(postgres.replace("+psycopg", "")) as writer:
            writer.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
            began = time.monotonic()
            with open_recall(store, address=postgres, folder=None) as recall:
                recall._searches = 99  # now what was shown is noted
                assert recall.search(ALICE, "red lamp", scope="local").status is Status.HIT
            assert time.monotonic() - began < 4


def lists(address: str) -> list[int]:
    """The number of lists of each index over vectors; 0 for another kind of index."""
    with psycopg.connect(address.replace("+psycopg", "")) as connection:
        found = connection.execute("SELECT indexdef FROM pg_indexes WHERE indexdef ~ 'halfvec_cosine_ops'").fetchall()
    numbers = (re.search(r"lists='?(\d+)", row[0]) for row in found)
    return [int(number[1]) if number else 0 for number in numbers]


def test_vectors_are_replaced_and_taken_out(vectors: PostgresVectors) -> None:
    matrix = unit(3)
    vectors.put("local", Vectors(np.array([1, 2]), matrix[:2]))
    vectors.put("local", Vectors(np.array([2]), matrix[2:]))
    assert vectors.of("local", [2]).matrix[0] == pytest.approx(matrix[2], abs=0.001)
    vectors.take("local", [1])
    assert vectors.nearest("local", matrix[0], 5).seqs.tolist() == [2]


def test_who_reads_does_not_wait_for_who_writes(postgres: str) -> None:
    with closing(Session(postgres)) as session, session.writing(), ThreadPoolExecutor(1) as beside:
        assert beside.submit(session.all, "SELECT 1").result(timeout=60) == [(1,)]


def test_a_lost_connection_is_named_and_made_anew(postgres: str) -> None:
    with closing(Session(postgres)) as session, psycopg.connect(postgres.replace("+psycopg", "")) as other:
        other.execute("SELECT pg_terminate_backend(%s, 60000)", session.all("SELECT pg_backend_pid()")[0])
        with pytest.raises(IndexFailed, match="PostgreSQL"):
            session.all("SELECT 1")
        assert session.all("SELECT 1") == [(1,)]


def test_an_index_of_an_earlier_format_is_made_anew(postgres: str, words: PostgresWords) -> None:
    words.apply([doc(1, "lamp")], [], 1)
    with psycopg.connect(postgres.replace("+psycopg", "")) as connection:
        connection.execute("DELETE FROM recall_meta WHERE name = 'format'")
        connection.execute("DROP TABLE recall_terms")
    again = PostgresWords(Session(postgres))
    assert (again.through(), again.roots()) == (0, [])
    again.apply([doc(1, "lamp")], [], 1)
    assert again.holding(Wanted("local"), ["lamp"], 9).tolist() == [1]
    again.close()
