"""Which of the candidates are shown: unlike ones, and in a reranker's order where there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.memstore import Store, open_store
from instar.memstore.fakes import ALICE, FakeClock, write
from instar.memstore.recall import Recall, Status, open_recall
from instar.memstore.recall.diversity import diverse
from instar.memstore.recall.errors import RerankerFailed
from instar.memstore.recall.rerank import RERANKED, Reranker
from instar.memstore.recall.testing import found, say


def row(*numbers: float):  # type: ignore[no-untyped-def]
    given_row = np.array(numbers, np.float32)
    return given_row / np.linalg.norm(given_row)


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store("memory:", clock=FakeClock()) as store:
        write(store, *(say(f"budget of team{n} is {'small ' * (40 - n)}", id=f"n{n:02d}") for n in range(40)))
        yield store


@pytest.fixture
def opened(store: Store) -> Iterator[Callable[[Reranker | None], Recall]]:
    made: list[Recall] = []

    def make(reranker: Reranker | None) -> Recall:
        made.append(open_recall(store, address="memory:", folder=None, clock=FakeClock(), reranker=reranker))
        return made[-1]

    yield make
    for recall in made:
        recall.close()


class TestDiversity:
    def test_something_else_comes_before_a_third_that_says_nearly_the_same(self) -> None:
        rows = {0: row(1, 0.05), 1: row(1, 0.1), 2: row(1, 0.15), 3: row(0, 1)}
        assert diverse([1.0, 0.95, 0.9, 0.8], rows, 3) == [0, 3, 1]

    def test_pages_that_are_only_somewhat_alike_keep_their_order(self) -> None:
        rows = {0: row(1, 0), 1: row(0.7, 0.7), 2: row(0, 1)}
        assert diverse([1.0, 0.9, 0.8], rows, 3) == [0, 1, 2]

    def test_without_vectors_the_order_stays(self) -> None:
        assert diverse([3.0, 2.0, 1.0], {}, 2) == [0, 1]

    @given(st.lists(st.floats(0, 10), max_size=20), st.integers(0, 25))
    def test_the_first_stays_first_and_none_comes_twice(self, scores: list[float], limit: int) -> None:
        scores.sort(reverse=True)
        rows = {place: row(1, place % 3) for place in range(len(scores))}
        chosen = diverse(scores, rows, limit)
        assert len(chosen) == len(set(chosen)) == min(len(scores), limit)
        assert chosen[:1] == ([0] if chosen else [])


def by_number(query: str, texts: Sequence[str]) -> list[float]:
    """The last team first."""
    return [float(text.split("team")[1].split()[0]) for text in texts]


class TestReranker:
    def test_its_order_is_the_order_of_the_hits(self, opened: Callable[[Reranker | None], Recall]) -> None:
        plain = found(opened(None).search(ALICE, "budget team", scope="local", limit=40))
        answer = opened(by_number).search(ALICE, "budget team", scope="local", limit=5)
        assert answer.status is Status.HIT
        assert found(answer) == sorted(plain[:RERANKED], reverse=True)[:5]

    def test_it_scores_a_bounded_number_of_bounded_texts_and_the_rest_keeps_its_place(
        self, opened: Callable[[Reranker | None], Recall]
    ) -> None:
        asked: list[Sequence[str]] = []

        def watching(query: str, texts: Sequence[str]) -> list[float]:
            asked.append(texts)
            return by_number(query, texts)

        plain = found(opened(None).search(ALICE, "budget team", scope="local", limit=40))
        answer = opened(watching).search(ALICE, "budget team", scope="local", limit=40)
        (texts,) = asked
        assert len(texts) == RERANKED
        assert max(map(len, texts)) <= 2_000
        assert len(plain) > RERANKED
        assert sorted(found(answer)) == sorted(plain)
        assert found(answer)[RERANKED:] == plain[RERANKED:]

    def test_equal_scores_keep_the_order(self, opened: Callable[[Reranker | None], Recall]) -> None:
        plain = found(opened(None).search(ALICE, "budget team", scope="local"))
        answer = opened(lambda query, texts: [1.0] * len(texts)).search(ALICE, "budget team", scope="local")
        assert set(found(answer)) <= {f"n{n:02d}" for n in range(40)}
        assert found(answer)[0] == plain[0]

    @pytest.mark.parametrize(
        ("scores", "reason"),
        [
            (RerankerFailed("the model is gone"), "the model is gone"),
            (RuntimeError("out of memory"), "out of memory"),
            ([1.0], "scores"),
            ([float("nan")] * RERANKED, "not a number"),
            (["a"] * RERANKED, "ValueError"),
            (None, "TypeError"),
        ],
    )
    def test_one_that_fails_leaves_every_hit_in_the_fused_order_and_is_named(
        self, opened: Callable[[Reranker | None], Recall], scores: object, reason: str
    ) -> None:
        def failing(query: str, texts: Sequence[str]) -> Sequence[float]:
            if isinstance(scores, Exception):
                raise scores
            return scores  # type: ignore[return-value]

        recall = opened(failing)
        answer = recall.search(ALICE, "budget team", scope="local", limit=40)
        plain = opened(None).search(ALICE, "budget team", scope="local", limit=40)
        assert (answer.status, found(answer)) == (Status.DEGRADED, found(plain))
        assert any("without reranking" in said and reason in said for said in answer.reasons)
