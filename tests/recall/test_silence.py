"""Servers that take a connection and say nothing: nobody waits for them for long, and not again and again."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from instar.memstore.recall.endpoint import Endpoint
from instar.memstore.recall.errors import EmbedderFailed, IndexFailed
from instar.memstore.recall.graphs import server_graphs


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def test_an_embedder_that_says_nothing_is_an_error_and_left_alone_for_a_while(
    silent: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instar.memstore.recall.endpoint._SECONDS_FOR_A_QUERY", 0.2)
    port = silent.getsockname()[1]
    embedder = Endpoint(f"http://127.0.0.1:{port}/v1", "small")
    with pytest.raises(EmbedderFailed, match="timed out"):
        embedder(["a question"])
    silent.close()  # whoever asked now would be refused
    with pytest.raises(EmbedderFailed, match=r"timed out.*asked again after 30 s"):
        embedder(["a question"])


def test_an_embedder_that_cannot_be_reached_is_left_alone_too(silent: socket.socket) -> None:
    port = silent.getsockname()[1]
    silent.close()
    embedder = Endpoint(f"http://127.0.0.1:{port}/v1", "small")
    with pytest.raises(EmbedderFailed, match="refused"):
        embedder(["a question"])
    with pytest.raises(EmbedderFailed, match="asked again after 30 s"):
        embedder(["a question"])


@pytest.mark.parametrize(
    "said",
    [b"220 mail.example.org ESMTP\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{"],
    ids=["mail", "half"],
)
def test_an_embedder_that_speaks_something_else_or_stops_in_the_middle_is_an_error(
    silent: socket.socket, said: bytes
) -> None:
    def answer() -> None:
        with silent.accept()[0] as connection:
            connection.recv(10_000)
            connection.sendall(said)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(10_000):
                pass

    thread = threading.Thread(target=answer)
    thread.start()
    with pytest.raises(EmbedderFailed):
        Endpoint(f"http://127.0.0.1:{silent.getsockname()[1]}/v1", "small")(["a question"])
    thread.join()


def test_a_server_of_vectors_that_says_nothing_is_an_error(
    silent: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instar.memstore.recall.graphs._SILENCE", 0.2)
    port = silent.getsockname()[1]
    with pytest.raises(IndexFailed, match="timed out") as failed:
        server_graphs("127.0.0.1", port)
    assert f"127.0.0.1:{port}" in str(failed.value)
