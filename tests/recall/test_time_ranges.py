"""A range of time over a root misses nothing, however many pages are in it, and however many newer ones are alike."""

import random
from collections.abc import Iterator
from math import log

import numpy as np
import pytest

from instar.memstore.recall import sqlite_words
from instar.memstore.recall.documents import Doc
from instar.memstore.recall.exact import ExactVectors
from instar.memstore.recall.index import Vectors, Wanted
from instar.memstore.recall.lexical import K1, B, rank_by_words
from instar.memstore.recall.meaning import EXACT, rank_by_meaning
from instar.memstore.recall.sqlite_words import SqliteWords

OLD, NEW = EXACT + 700, EXACT + 1_200
SPAN = (1_000, 1_000 + OLD)
"""When the old documents were made; the new ones, which were written later, after it."""
NEARER = 400
DIMENSIONS = 16


def doc(seq: int, words: dict[str, int]) -> Doc:
    created = SPAN[0] + seq - 1 if seq <= OLD else SPAN[1] + seq
    return Doc(seq, f"p{seq}", f"local/s{seq % 7}", 0, created, None, words, (), "", "")


def docs() -> list[Doc]:
    dice = random.Random(5)  # noqa: S311
    made = []
    for seq in range(1, OLD + NEW + 1):
        words = {"order": 1} if dice.random() < 0.8 else {}
        words |= {f"filler{dice.randrange(300)}": 1, **({"budget": 1} if dice.random() < 0.01 else {})}
        made.append(doc(seq, words))
    return made


@pytest.fixture(scope="module")
def words() -> Iterator[SqliteWords]:
    index = SqliteWords(None)
    index.apply([*docs(), doc(OLD + NEW + 1, {"order": 1})], [], OLD + NEW + 1)
    yield index
    index.close()


@pytest.fixture(scope="module")
def vectors() -> Iterator[ExactVectors]:
    """The first document is what is looked for; so many of the new ones are still nearer to what is asked."""
    dice = np.random.default_rng(7)
    matrix = dice.normal(size=(OLD + NEW, DIMENSIONS)).astype(np.float32)
    matrix[:, 0] = 0.0
    matrix[0] = [4.0, *[1.0] * (DIMENSIONS - 1)]
    matrix[OLD : OLD + NEARER, 0] = 40.0
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    index = ExactVectors()
    index.put("local", Vectors(np.arange(1, OLD + NEW + 1, dtype=np.int64), matrix))
    yield index
    index.close()


ASKED = np.eye(1, DIMENSIONS, dtype=np.float32)[0]


def test_the_nearest_in_a_range_is_found_behind_many_that_are_nearer_and_newer(
    words: SqliteWords, vectors: ExactVectors
) -> None:
    near = rank_by_meaning(words, vectors, Wanted("local", since=SPAN[0], until=SPAN[1]), ASKED, 100)
    assert near.seqs[0] == 1
    assert all(seq <= OLD for seq in near.seqs)
    assert near.sure >= 1


@pytest.mark.parametrize("width", [1, 100, EXACT])
def test_a_range_of_few_is_compared_whole_however_old_it_is(
    words: SqliteWords, vectors: ExactVectors, width: int
) -> None:
    near = rank_by_meaning(words, vectors, Wanted("local", since=SPAN[0], until=SPAN[0] + width), ASKED, 10)
    held = vectors.of("local", range(1, width + 1))
    expected = held.seqs[np.argsort(-(held.matrix @ ASKED), kind="stable")[:10]]
    assert list(near.seqs) == expected.tolist()


@pytest.mark.parametrize("sorted_up_to", [10, 20_000])
@pytest.mark.parametrize(("since", "until"), [(1_500, 1_700), (None, 1_700), (1_500, None), (1_500, 1_500)])
def test_what_is_held_in_a_range_is_exactly_that_the_newest_first(
    words: SqliteWords,
    monkeypatch: pytest.MonkeyPatch,
    sorted_up_to: int,
    since: int | None,
    until: int | None,
) -> None:
    monkeypatch.setattr(sqlite_words, "_SORTED", sorted_up_to)
    inside = [
        one.seq
        for one in [*docs(), doc(OLD + NEW + 1, {})]
        if (since is None or one.created >= since) and (until is None or one.created < until)
    ]
    wanted = Wanted("local", since=since, until=until)
    assert words.holding(wanted, [], 50).tolist() == inside[::-1][:50]
    assert words.holding(wanted, [], 100_000).tolist() == inside[::-1]
    assert words.holding(Wanted("elsewhere", since=since, until=until), [], 50).tolist() == []


def test_in_a_range_a_word_counts_for_how_common_it_is_there(words: SqliteWords) -> None:
    wanted = Wanted("local", since=SPAN[0], until=SPAN[0] + 600)
    inside = [one for one in docs() if one.created < SPAN[0] + 600]
    mean = sum(sum(one.words.values()) for one in docs()) / (OLD + NEW)
    weight = {}
    for term in ("order", "budget"):
        holding = sum(term in one.words for one in inside)
        weight[term] = log(1 + (len(inside) - holding + 0.5) / (holding + 0.5))
    scores = {}
    for one in inside:
        norm = K1 * (1 - B + B * sum(one.words.values()) / mean)
        scores[one.seq] = sum(weight[term] * (K1 + 1) / (1 + norm) for term in weight if term in one.words)
    found = rank_by_words(words, wanted, ["order", "budget"], 5)
    assert list(found.seqs) == sorted(scores, key=lambda seq: (-scores[seq], -seq))[:5]
    assert found.scores[0] == pytest.approx(scores[found.seqs[0]], rel=0.02)


def test_an_index_without_times_gets_them_when_it_is_opened(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "words.db"
    index = SqliteWords(path)
    index.apply(docs()[:50], [], 50)
    index._file.all("DROP INDEX docs_created")
    index.close()
    again = SqliteWords(path)
    plan = again._file.all("EXPLAIN QUERY PLAN SELECT seq FROM docs WHERE scope = 1 AND created >= 5 AND created < 9")
    again.close()
    assert "docs_created" in str(plan)
