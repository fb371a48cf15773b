"""What the index in PostgreSQL does beyond the contract: statistics, graphs that are built at once, formats."""

from collections.abc import Iterator

import numpy as np
import psycopg
import pytest

from instar.memstore.recall.documents import Doc, mark
from instar.memstore.recall.index import Vectors, Wanted
from instar.memstore.recall.pg_session import Session
from instar.memstore.recall.pgvectors import GRAPHED, PostgresVectors
from instar.memstore.recall.postgres import PostgresWords


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


def test_the_shares_of_common_terms_are_known_once_there_are_many_documents(words: PostgresWords) -> None:
    made = [doc(n, "order", *(["half"] if n % 2 else []), f"only{n}") for n in range(1, 10_001)]
    made += [doc(n, "order", scope="elsewhere") for n in range(10_001, 21_001)]
    words.apply(made, [], 21_000)
    shares = words.shares("local/desk", ["order", "half", "only7", "never"])
    assert shares == pytest.approx({"order": 1.0, "half": 0.5}, abs=0.05)


def test_many_vectors_get_a_graph_and_are_found_before_and_after(vectors: PostgresVectors) -> None:
    matrix = unit(GRAPHED + 1)
    seqs = np.arange(1, GRAPHED + 2)
    vectors.put("local", Vectors(seqs, matrix))
    vectors.put("small", Vectors(seqs[:10], matrix[:10]))
    assert vectors.nearest("local", matrix[7], 3)[0] == 8
    assert (vectors.repair(), vectors.repair()) == (1, 0)
    assert vectors.nearest("local", matrix[7], 3)[0] == 8
    assert len(vectors.nearest("local", matrix[7], 600)) == 600


def test_vectors_are_replaced_and_taken_out(vectors: PostgresVectors) -> None:
    matrix = unit(3)
    vectors.put("local", Vectors(np.array([1, 2]), matrix[:2]))
    vectors.put("local", Vectors(np.array([2]), matrix[2:]))
    assert vectors.of("local", [2]).matrix[0] == pytest.approx(matrix[2], abs=0.001)
    vectors.take("local", [1])
    assert vectors.nearest("local", matrix[0], 5).tolist() == [2]


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
