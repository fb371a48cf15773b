"""The one process that may open the graphs of a folder: whoever holds its lock, and the server that others ask.

An embedded Chroma that two processes open loses and resurrects vectors without a word. Chroma's own server listens on
a port, which every user of a machine can reach, and no longer asks for a password. So the server here holds the lock,
opens Chroma for itself, and answers on a socket in the folder: whoever may enter the folder may ask, nobody else.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import socketserver
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from pydantic import JsonValue

from instar.memstore.recall.errors import IndexFailed, IndexHeld, IndexNotPermitted
from instar.memstore.recall.graphs import Graphs
from instar.memstore.recall.wire import SOCKET, DistantGraphs, Message, connect, receive, send, short_path

_WANTED = "owner.wanted"
_NAME = re.compile(r"[a-z0-9-]{1,100}\Z")
_MOST = 10_000
_PAUSE = 0.1
_AWAITED = 3.0
_CREDENTIALS = struct.Struct("3i")


class OwnerLock:
    """The right to open the folder of an index. The system gives it back when the process ends, however it ends.

    Raises:
        IndexHeld: another process has it.
        IndexNotPermitted: the system refuses the folder, or the lock.
    """

    def __init__(self, folder: Path) -> None:
        self._file = -1
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.open(folder / "owner.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.pread(self._file, 100, 0).decode(errors="replace").strip()
            self.release()
            raise IndexHeld(str(folder), owner) from error
        except OSError as error:
            self.release()
            raise IndexNotPermitted(str(folder), str(error)) from error
        with suppress(OSError):  # a name for those who wait; on a full disk there is none
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"process {os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let another process have it. Releasing twice is fine."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def wanted(folder: Path) -> bool:
    """Whether a server waits for the folder: who has it only for itself lets go of it."""
    return os.path.exists(folder / _WANTED)  # noqa: PTH110  (of a folder that refuses it this says no)


def awaited(folder: Path) -> socket.socket | None:
    """A connection to the server that waits for the folder, once it has it; None where it does not come after all."""
    end = time.monotonic() + _AWAITED
    while True:
        if (connection := connect(folder)) is not None:
            return connection
        if time.monotonic() >= end:
            with suppress(OSError):  # left by one that was killed; a living one says it again
                (folder / _WANTED).unlink()
            return None
        time.sleep(_PAUSE)


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Wait until nobody else owns the folder, and own it until the block ends."""
    asking = folder / _WANTED
    while True:
        try:
            lock = OwnerLock(folder)
        except IndexHeld:
            asking.touch(mode=0o600)
            time.sleep(_PAUSE)
        else:
            break
    with lock:
        asking.unlink(missing_ok=True)
        yield


def serve(folder: Path, make: Callable[[Path], Graphs]) -> None:
    """Own the folder and answer whoever may enter it, until a signal ends the process.

    Raises:
        IndexFailed: the folder cannot be used, or does not hold graphs that can be opened.
        OSError: the socket cannot be made.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with owned(folder):
        place = folder / SOCKET
        place.unlink(missing_ok=True)  # left by one that was killed: the lock says that nobody listens there
        # Bound before Chroma is opened, which takes a second: whoever asks meanwhile waits for that long.
        with short_path(folder) as path, _Server(path, _Connection) as server:
            try:
                place.chmod(0o600)
                server.graphs = make(folder)
                server.serve_forever(poll_interval=1.0)
            finally:
                place.unlink(missing_ok=True)
                if server.graphs is not None:
                    server.graphs.close()


def answers(folder: Path) -> bool:
    """Whether a server owns the folder and listens; one that opens it at this moment does."""
    connection = connect(folder)
    if connection is not None:
        connection.close()
    return connection is not None


def owner_of(folder: Path) -> int:
    """The process that serves the folder; 0 where none answers."""
    connection = connect(folder)
    if connection is None:
        return 0
    graphs = DistantGraphs(folder, connection)
    try:
        return graphs.owner()
    except IndexFailed:
        return 0
    finally:
        graphs.close()


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    graphs: Graphs | None = None

    def verify_request(self, request: object, client_address: object) -> bool:
        """Only processes of the same user, whatever the folder lets in."""
        if not isinstance(request, socket.socket):
            return False
        told = request.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return bool(_CREDENTIALS.unpack(told)[1] == os.getuid())


class _Connection(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        """Answer until the other side ends."""
        graphs = self.server.graphs if isinstance(self.server, _Server) else None
        if graphs is None:
            return
        with suppress(OSError):
            while (asked := receive(self.request)) is not None:
                send(self.request, answer(graphs, asked))


def answer(graphs: Graphs, asked: Message) -> Message:
    """What the graphs say to a message; a message that has no meaning changes nothing."""
    try:
        return _answer(graphs, asked)
    except (IndexFailed, ValueError, TypeError) as error:
        return Message({"error": error.reason if isinstance(error, IndexFailed) else str(error)[:300]})


def _answer(graphs: Graphs, asked: Message) -> Message:
    if asked.said.get("ask") == "who":
        return Message({"pid": os.getpid()})
    if asked.said.get("ask") == "names":
        return Message({"names": list[JsonValue](graphs.names())})
    name = asked.said.get("name")
    if not isinstance(name, str) or not _NAME.match(name):
        raise ValueError("no graph can have that name")
    match asked.said.get("ask"):
        case "count":
            return Message({"count": graphs.count(name)})
        case "put":
            rows = _number(asked, "rows")
            if not rows:
                raise ValueError("there are no vectors in it")
            seqs = np.frombuffer(asked.data[: 8 * rows], np.int64)
            matrix = np.frombuffer(asked.data[8 * rows :], np.float32).reshape(rows, -1)
            if len(seqs) != rows or not matrix.shape[1]:
                raise ValueError("there are fewer vectors in it than it says")
            graphs.put(name, seqs, matrix)
        case "take":
            graphs.take(name, np.frombuffer(asked.data, np.int64).tolist())
        case "nearest":
            found = graphs.nearest(name, np.frombuffer(asked.data, np.float32), _number(asked, "limit"))
            return Message({}, np.ascontiguousarray(found, np.int64).tobytes())
        case "drop":
            graphs.drop(name)
        case _:
            raise ValueError("nothing of that name can be asked")
    return Message({})


def _number(asked: Message, name: str) -> int:
    found = asked.said.get(name)
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= _MOST:
        raise ValueError(f"{name} is not a number that is allowed")
    return found
