"""Embedders keep what they promise, and an endpoint that misbehaves becomes an error and never a vector."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from instar.engine.llm.testing import Asked, Handler, ModelServer, a_web_page, half_a_body, serving, status
from instar.memstore import InvalidRequest, open_store
from instar.memstore.fakes import ALICE, FakeClock, write
from instar.memstore.recall import Embedder, EmbedderFailed, Status, embedder_of, open_recall
from instar.memstore.recall.endpoint import AT_ONCE, Endpoint
from instar.memstore.recall.fakes import HashedWords
from instar.memstore.recall.testing import EmbedderContract, found, say

MODEL = os.environ.get("INSTAR_SENTENCE_TRANSFORMERS", "")


def vectors(handler: Handler, asked: Asked) -> None:
    """A good answer: the vectors of hashed words, in reverse order, as the index in each row allows."""
    texts = asked["input"]
    assert isinstance(texts, list)
    matrix = HashedWords(dimensions=16)([str(text) for text in texts])
    rows = [{"index": place, "embedding": (3 * row).tolist()} for place, row in enumerate(matrix)]
    handler.reply(200, json.dumps({"data": rows[::-1]}).encode())


def answering(body: object) -> object:
    return lambda handler, _: handler.reply(200, json.dumps(body).encode())


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with serving(vectors) as running:
        yield running


@pytest.fixture
def waited() -> list[float]:
    return []


@pytest.fixture
def endpoint(server: ModelServer, waited: list[float]) -> Endpoint:
    return Endpoint(server.url, "small", key="sesame", sleep=waited.append)


@cache
def sentence_transformers() -> Embedder:
    return embedder_of(f"sentence-transformers:{MODEL}")


class TestWordLlama(EmbedderContract):
    @pytest.fixture
    def embedder(self):  # type: ignore[no-untyped-def]
        return embedder_of("wordllama")


class TestEndpoint(EmbedderContract):
    @pytest.fixture
    def embedder(self, endpoint: Endpoint) -> Endpoint:
        return endpoint


@pytest.mark.skipif(not MODEL, reason="INSTAR_SENTENCE_TRANSFORMERS names no model on this machine")
class TestSentenceTransformers(EmbedderContract):
    @pytest.fixture
    def embedder(self):  # type: ignore[no-untyped-def]
        return sentence_transformers()

    def test_it_knows_more_than_words(self, embedder) -> None:  # type: ignore[no-untyped-def]
        asked, near, far = embedder(["How do I get my money back?", "Refunds take five days.", "The cat is asleep."])
        assert asked @ near > asked @ far + 0.2


def test_texts_are_asked_in_batches_and_keep_their_order(endpoint: Endpoint, server: ModelServer) -> None:
    texts = [f"text number{n}" for n in range(2 * AT_ONCE + 5)]
    matrix = endpoint(texts)
    assert np.allclose(matrix, HashedWords(dimensions=16)(texts), atol=1e-5)
    asked = [request["input"] for request in server.asked]
    assert [len(part) for part in asked if isinstance(part, list)] == [AT_ONCE, AT_ONCE, 5]
    assert {request["model"] for request in server.asked} == {"small"}
    assert all(b"Bearer sesame" in received for received in server.received)


def test_secrets_do_not_leave(endpoint: Endpoint, server: ModelServer) -> None:
    secret = "ghp_" + "a1B2" * 9
    endpoint([f"my token is {secret}"])
    assert not any(secret.encode() in received for received in server.received)
    assert b"REDACTED" in server.received[0]


def test_a_busy_server_is_asked_again_when_it_wishes(
    endpoint: Endpoint, server: ModelServer, waited: list[float]
) -> None:
    server.play(status(429, "slow down", Retry_After="3"), status(503, "loading"))
    assert len(endpoint(["a"])) == 1
    assert waited == [3.0, 1.0]


def test_one_that_wishes_for_too_long_a_wait_is_given_up_at_once(
    endpoint: Endpoint, server: ModelServer, waited: list[float]
) -> None:
    server.play(status(429, "come back tomorrow", Retry_After="86400"))
    with pytest.raises(EmbedderFailed, match=r"HTTP 429: .*come back tomorrow"):
        endpoint(["a"])
    assert waited == []


def test_one_that_stays_busy_is_given_up_in_the_end(
    endpoint: Endpoint, server: ModelServer, waited: list[float]
) -> None:
    server.otherwise = status(503, "loading")
    with pytest.raises(EmbedderFailed, match="HTTP 503"):
        endpoint(["a"])
    assert sum(waited) <= 10


@pytest.mark.parametrize(
    ("play", "reason"),
    [
        (answering({"data": []}), "1 texts got 0 vectors"),
        (answering({"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1]}]}), "got 2 vectors"),
        (answering({"data": [{"index": 7, "embedding": [1.0]}]}), "which vector belongs"),
        (answering({"data": [{"index": 0, "embedding": [1.0, float("nan")]}]}), "not a number"),
        (answering({"data": [{"index": 0, "embedding": [1e300]}]}), "not a number"),
        (answering({"data": [{"index": 0, "embedding": ["x"]}]}), "not numbers"),
        (answering({"data": [{"index": 0, "embedding": []}]}), "shape"),
        (answering({"data": [{"index": 0, "embedding": None}]}), "not"),
        (answering({"data": [7]}), "holds no vectors"),
        (answering([1, 2]), "holds no vectors"),
        (a_web_page, "JSONDecodeError"),
        (half_a_body, "IncompleteRead|JSONDecodeError|ValueError"),
        (status(401, "wrong key"), "HTTP 401: .*wrong key"),
        (lambda handler, _: handler.reply(302, b"", Location="http://127.0.0.1:9/"), "HTTP 302"),
    ],
)
def test_what_is_no_vector_for_each_text_is_an_error(
    endpoint: Endpoint, server: ModelServer, play: object, reason: str
) -> None:
    server.play(play)  # type: ignore[arg-type]
    with pytest.raises(EmbedderFailed, match=reason):
        endpoint(["a"])


def test_vectors_of_another_length_than_before_are_an_error(endpoint: Endpoint, server: ModelServer) -> None:
    endpoint(["a"])
    server.play(answering({"data": [{"index": 0, "embedding": [1.0, 0.0]}]}))  # type: ignore[arg-type]
    with pytest.raises(EmbedderFailed, match="2 numbers after some of 16"):
        endpoint(["b"])


def test_the_key_is_in_no_message(server: ModelServer) -> None:
    server.play(status(400, "you sent Bearer sesame-4711-sesame"))
    with pytest.raises(EmbedderFailed) as failed:
        Endpoint(server.url, "small", key="sesame-4711-sesame")(["a"])
    assert "4711" not in str(failed.value)


def test_recall_works_with_an_endpoint_and_says_degraded_without_it(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/store.db"
    with serving(vectors) as server, open_store(address, clock=FakeClock()) as store:
        embedder = embedder_of(f"small@{server.url}", {})
        with open_recall(
            store, address=address, folder=tmp_path / "index", embedder=embedder, clock=FakeClock()
        ) as recall:
            write(store, say("the red lamp", id="a"))
            answer = recall.search(ALICE, "red lamp", scope="local")
            assert (answer.status, answer.hits[0].vector_rank) == (Status.HIT, 1)
            server.otherwise = status(401, "no more")
            write(store, say("the blue chair", id="b"))
            answer = recall.search(ALICE, "blue chair", scope="local")
            assert (answer.status, found(answer)) == (Status.DEGRADED, ["b"])
            assert any("HTTP 401" in reason for reason in answer.reasons)


def test_vectors_of_another_length_than_those_that_are_kept_are_a_reason_until_reindexed(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/store.db"
    with open_store(address, clock=FakeClock()) as store:
        for dimensions, status_wanted in ((16, Status.HIT), (32, Status.DEGRADED)):
            embedder = HashedWords("same name", dimensions=dimensions)
            with open_recall(
                store, address=address, folder=tmp_path / "index", embedder=embedder, clock=FakeClock()
            ) as recall:
                write(store, say(f"the red lamp {dimensions}", id=f"n{dimensions}"))
                answer = recall.search(ALICE, "red lamp", scope="local")
                assert (answer.status, answer.hits[0].page.kind) == (status_wanted, "message")
                recall.reindex()
                assert recall.search(ALICE, "red lamp", scope="local").status is Status.HIT


@pytest.mark.parametrize("name", ["", "nothing", "@http://h/v1", "m@ftp://h", "m@"])
def test_a_name_without_meaning_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="MODEL@http"):
        embedder_of(name, {})
