"""One Chroma server that several processes use."""

import gc
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from instar.memstore import open_store
from instar.memstore.fakes import ALICE, FakeClock, write
from instar.memstore.recall import Status, open_recall
from instar.memstore.recall.fakes import HashedWords
from instar.memstore.recall.graphs import server_graphs
from instar.memstore.recall.testing import found, say


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture
def server(port: int, tmp_path: Path) -> Iterator[str]:
    command = [Path(sys.executable).with_name("chroma"), "run", "--path", tmp_path / "served", "--port", str(port)]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
            except OSError:
                time.sleep(0.2)
            else:
                break
        yield f"127.0.0.1:{port}"
    finally:
        child.terminate()
        child.wait()


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """A connection that was left open is a warning here, and not in the midst of another test."""
    yield
    gc.collect()


def test_two_openings_share_one_server(server: str, port: int, tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/store.db"
    with open_store(address, clock=FakeClock()) as store:
        write(store, say("the red lamp", id="a"))

        def opened():  # type: ignore[no-untyped-def]
            return open_recall(
                store,
                address=address,
                folder=tmp_path / "index",
                embedder=HashedWords(),
                server=server,
                clock=FakeClock(),
            )

        with opened() as one, opened() as other:
            one.catch_up()
            write(store, say("the blue chair", id="b"))
            answer = other.search(ALICE, "blue chair", scope="local")
            assert (answer.status, found(answer)) == (Status.HIT, ["b"])
            assert other.state().vectors == one.state().vectors == 2
            with closing(server_graphs("127.0.0.1", port)) as graphs:
                (nearest,) = graphs.nearest(*graphs.names(), HashedWords()(["blue chair"])[0], 1)
            assert one.upkeep.words.names([nearest]) == {nearest: "b"}


def test_a_server_that_is_not_there_leaves_the_words_and_is_named(port: int, tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/store.db"
    with (
        open_store(address, clock=FakeClock()) as store,
        open_recall(
            store,
            address=address,
            folder=tmp_path / "index",
            embedder=HashedWords(),
            server=f"127.0.0.1:{port}",
            clock=FakeClock(),
        ) as recall,
    ):
        write(store, say("the red lamp", id="a"))
        answer = recall.search(ALICE, "red lamp", scope="local")
        assert (answer.status, found(answer)) == (Status.DEGRADED, ["a"])
        assert any(f"127.0.0.1:{port}" in reason for reason in answer.reasons)
