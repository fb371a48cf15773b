"""The process that owns the graphs of a home: found without configuration, killed, restarted, asked nonsense."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from instar.memstore import Store, open_store
from instar.memstore.fakes import ALICE, FakeClock, write
from instar.memstore.recall import Recall, Status, open_recall
from instar.memstore.recall.errors import IndexFailed
from instar.memstore.recall.fakes import HashedWords
from instar.memstore.recall.owner import OwnerLock, answer, answers
from instar.memstore.recall.testing import LastingContract, found, say
from instar.memstore.recall.wire import SOCKET, DistantGraphs, Message, connect, receive, send, short_path

OWNER = """
import signal, sys
from pathlib import Path
from instar.memstore.recall.graphs import embedded_graphs
from instar.memstore.recall.owner import serve
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
serve(Path(sys.argv[1]), embedded_graphs)
"""


def started(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", OWNER, str(folder)])


def wait_until(condition: object, what: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if condition():  # type: ignore[operator]
            return
        time.sleep(0.05)
    pytest.fail(what)


@pytest.fixture
def chroma(tmp_path: Path) -> Path:
    return tmp_path / "index" / "chroma"


@pytest.fixture
def owner(chroma: Path) -> Iterator[subprocess.Popen[bytes]]:
    child = started(chroma)
    try:
        wait_until(lambda: answers(chroma), "nobody listens")
        yield child
    finally:
        child.kill()
        child.wait()


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """A folder with an owner that many tests ask, since a start takes a second, and its pid."""
    folder = tmp_path_factory.mktemp("lasting") / "chroma"
    child = started(folder)
    try:
        wait_until(lambda: answers(folder), "nobody listens")
        yield folder, child.pid
    finally:
        child.kill()
        child.wait()


@pytest.fixture
def graphs(chroma: Path, lasting: tuple[Path, int]) -> Iterator[DistantGraphs]:
    """The graphs of that owner in the place of the test's own; empty before, the owner unharmed after."""
    chroma.parent.mkdir(mode=0o700)
    chroma.symlink_to(lasting[0])
    connection = connect(chroma)
    assert connection is not None
    asked = DistantGraphs(chroma, connection)
    for name in asked.names():
        asked.drop(name)
    yield asked
    assert asked.owner() == lasting[1]
    asked.close()


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture
def store(address: str) -> Iterator[Store]:
    with open_store(address, clock=FakeClock()) as store:
        yield store


def opened(store: Store, address: str, chroma: Path) -> Recall:
    return open_recall(
        store, address=address, folder=chroma.parent, embedder=HashedWords(), clock=FakeClock(), patience=5
    )


@pytest.mark.usefixtures("graphs")
class TestAtTheOwner(LastingContract):
    @pytest.fixture
    def address(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/store.db"


def test_several_use_one_owner_without_being_told_of_it(
    store: Store, address: str, chroma: Path, owner: subprocess.Popen[bytes]
) -> None:
    with opened(store, address, chroma) as one, opened(store, address, chroma) as other:
        write(store, say("the red lamp", id="a"))
        assert one.search(ALICE, "red lamp", scope="local").status is Status.HIT
        write(store, say("the blue chair", id="b"))
        answer = other.search(ALICE, "blue chair", scope="local")
        assert (answer.status, found(answer)) == (Status.HIT, ["b"])
        assert (one.state().vectors, other.state().vectors) == (2, 2)


def test_only_the_user_can_reach_the_socket(chroma: Path, owner: subprocess.Popen[bytes]) -> None:
    assert (chroma / SOCKET).stat().st_mode & 0o777 == 0o600
    assert chroma.stat().st_mode & 0o777 == 0o700


def test_after_a_killed_owner_the_next_is_found_by_who_asked_the_first(
    store: Store, address: str, chroma: Path, owner: subprocess.Popen[bytes]
) -> None:
    with opened(store, address, chroma) as recall:
        write(store, say("the red lamp", id="a"))
        recall.catch_up()
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        again = started(chroma)
        try:
            wait_until(lambda: answers(chroma), "nobody listens")
            write(store, say("the blue chair", id="b"))
            assert recall.search(ALICE, "blue chair", scope="local").status is Status.HIT
            assert recall.state().vectors == 2
        finally:
            again.kill()
            again.wait()


def test_without_an_owner_a_process_opens_the_graphs_itself(
    store: Store, address: str, chroma: Path, owner: subprocess.Popen[bytes]
) -> None:
    with opened(store, address, chroma) as recall:
        write(store, say("the red lamp", id="a"))
        recall.catch_up()
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        write(store, say("the blue chair", id="b"))
        recall.search(ALICE, "blue chair", scope="local")
        assert recall.search(ALICE, "blue chair", scope="local").status is Status.HIT
        assert recall.state().vectors == 2


def test_who_has_the_graphs_for_itself_gives_them_to_an_owner_that_starts(
    store: Store, address: str, chroma: Path
) -> None:
    with opened(store, address, chroma) as recall:
        write(store, say("the red lamp", id="a"))
        assert recall.state().vectors == 0
        recall.catch_up()
        late = started(chroma)
        try:
            wait_until((chroma / "owner.wanted").exists, "the owner does not ask for the folder")
            assert recall.state().vectors == 1
            assert answers(chroma)
            write(store, say("the blue chair", id="b"))
            assert recall.search(ALICE, "blue chair", scope="local").status is Status.HIT
            assert recall.state().vectors == 2
        finally:
            late.terminate()
            late.wait()
        assert not (chroma / SOCKET).exists()


def test_an_owner_that_was_killed_while_it_waited_keeps_nobody_waiting_for_ever(
    store: Store, address: str, chroma: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instar.memstore.recall.owner._AWAITED", 0.3)
    write(store, say("the red lamp", id="a"))
    chroma.mkdir(parents=True)
    (chroma / "owner.wanted").touch()
    with opened(store, address, chroma) as recall:
        recall.catch_up()
        assert recall.state().vectors == 1


def test_an_owner_that_ended_leaves_the_lock(chroma: Path, owner: subprocess.Popen[bytes]) -> None:
    owner.terminate()
    owner.wait()
    OwnerLock(chroma).release()


def test_a_long_path_is_no_obstacle(tmp_path: Path) -> None:
    folder = tmp_path / ("a" * 100) / ("b" * 100)
    child = started(folder)
    try:
        wait_until(lambda: answers(folder), "nobody listens")
    finally:
        child.kill()
        child.wait()


def test_graphs_answer_as_they_would_here(graphs: DistantGraphs, lasting: tuple[Path, int]) -> None:
    seqs = np.arange(1, 4_501, dtype=np.int64)
    matrix = np.random.default_rng(1).standard_normal((len(seqs), 32)).astype(np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    graphs.put("some", seqs, matrix)
    assert (graphs.count("some"), graphs.count("none")) == (4_500, 0)
    assert graphs.nearest("some", matrix[41], 3)[0] == 42
    graphs.take("some", [42, 43])
    assert graphs.nearest("some", matrix[41], 3)[0] != 42
    assert graphs.count("some") == 4_498
    graphs.drop("some")
    graphs.drop("some")
    assert (graphs.count("some"), graphs.owner()) == (0, lasting[1])


@pytest.mark.parametrize(
    "message",
    [
        Message({}),
        Message({"ask": "put", "name": "some", "rows": 3}, b"short"),
        Message({"ask": "put", "name": "some", "rows": 10**12}, b""),
        Message({"ask": "put", "name": "some", "rows": True}, b"x" * 12),
        Message({"ask": "put", "name": "../../etc", "rows": 1}, b"x" * 12),
        Message({"ask": "put", "name": "some", "rows": 0}, b""),
        Message({"ask": "take", "name": "some"}, b"odd"),
        Message({"ask": "nearest", "name": "some", "limit": -1}, b""),
        Message({"ask": "nearest", "name": ["some"], "limit": 1}, b""),
        Message({"ask": "__class__", "name": "some"}),
    ],
)
def test_what_has_no_meaning_is_refused_and_harms_nobody(
    graphs: DistantGraphs, chroma: Path, message: Message
) -> None:
    connection = connect(chroma)
    assert connection is not None
    with connection:
        send(connection, message)
        refused = receive(connection)
    assert refused is not None
    assert isinstance(refused.said.get("error"), str)
    assert graphs.owner() > 0


@pytest.mark.parametrize("noise", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, b"\0\0\0\2\0\0\0\0{]"])
def test_noise_ends_its_connection_and_nothing_else(graphs: DistantGraphs, chroma: Path, noise: bytes) -> None:
    connection = connect(chroma)
    assert connection is not None
    with connection:
        connection.sendall(noise)
        connection.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            assert connection.recv(100) == b""
    assert graphs.owner() > 0


def test_what_fails_at_the_owner_is_told_to_who_asked() -> None:
    class Broken:
        def names(self) -> list[str]:
            raise IndexFailed("here", "the disk is full")

    told = answer(Broken(), Message({"ask": "names"}))  # type: ignore[arg-type]
    assert told.said == {"error": "the disk is full"}


def test_an_owner_that_falls_silent_in_the_middle_is_a_failure_and_no_answer(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        with short_path(tmp_path) as path:
            listener.bind(path)
        listener.listen()
        connection = connect(tmp_path)
        assert connection is not None
        graphs = DistantGraphs(tmp_path, connection)
        listener.accept()[0].close()
        (tmp_path / SOCKET).unlink()
        with pytest.raises(IndexFailed, match="does not answer"):
            graphs.count("some")
        assert graphs.lost
        graphs.close()


@pytest.mark.parametrize(
    "ask",
    [
        lambda graphs: graphs.nearest("some", np.zeros(4, np.float32), 3),
        lambda graphs: graphs.put("some", np.arange(2), np.zeros((2, 4), np.float32), within=0.1),
        lambda graphs: graphs.take("some", [1], within=0.1),
    ],
    ids=["nearest", "put", "take"],
)
def test_an_owner_that_lives_and_says_nothing_is_waited_for_once_and_left_alone_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Callable[[DistantGraphs], object]
) -> None:
    monkeypatch.setattr("instar.memstore.recall.wire._SECONDS_FOR_A_SEARCH", 0.2)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        with short_path(tmp_path) as path:
            listener.bind(path)
        listener.listen()
        connection = connect(tmp_path)
        assert connection is not None
        graphs = DistantGraphs(tmp_path, connection)
        for _ in range(3):
            with pytest.raises(IndexFailed, match="does not answer"):
                ask(graphs)
        assert not graphs.lost
        listener.accept()[0].close()
        listener.settimeout(0)
        with pytest.raises(BlockingIOError):  # it was not even asked again
            listener.accept()
        graphs.close()
