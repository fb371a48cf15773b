"""Graphs at the end of a Unix socket: what is asked and answered, and the asking side.

A message is JSON of a stated length and bytes of a stated length. Nothing in it is ever executed or unpickled.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import numpy as np
from pydantic import JsonValue

from instar.memstore.recall.errors import IndexFailed
from instar.memstore.recall.index import PATIENT, Matrix, Seqs

SOCKET = "owner.sock"
_SIZES = struct.Struct(">II")
_LONGEST_SAID, _LONGEST_BYTES = 1 << 20, 1 << 28
_SECONDS_FOR_A_SEARCH = 10.0
"""How long an owner may say nothing to a question for which somebody waits."""
_LEFT_ALONE = 10.0
"""Seconds for which an owner that said nothing is not asked again."""
_PART = 2_000


@dataclass(frozen=True, slots=True)
class Message:
    """A question or an answer."""

    said: Mapping[str, JsonValue]
    data: bytes = b""


def send(connection: socket.socket, message: Message) -> None:
    """Send one message.

    Raises:
        OSError: the other side is gone.
    """
    said = json.dumps(message.said).encode()
    connection.sendall(_SIZES.pack(len(said), len(message.data)) + said)
    if message.data:
        connection.sendall(message.data)


def receive(connection: socket.socket) -> Message | None:
    """The next message; None where the other side ended.

    Raises:
        OSError: the other side is gone, or what it sent is no message.
    """
    head = _exactly(connection, _SIZES.size, may_end=True)
    if not head:
        return None
    long, much = _SIZES.unpack(head)
    if long > _LONGEST_SAID or much > _LONGEST_BYTES:
        raise OSError("a message is too long")
    try:
        said = json.loads(_exactly(connection, long))
    except ValueError as error:
        raise OSError("a message is not JSON") from error
    if not isinstance(said, dict):
        raise OSError("a message is not an object")
    return Message(said, _exactly(connection, much))


def _exactly(connection: socket.socket, size: int, *, may_end: bool = False) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(min(size - len(parts), 1 << 20))
        if not part:
            if may_end and not parts:
                return b""
            raise OSError("the other side ended in the middle of a message")
        parts += part
    return bytes(parts)


@contextmanager
def short_path(folder: Path) -> Iterator[str]:
    """The socket of a folder under a name that is short enough: one of a socket has at most 107 bytes."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


def connect(folder: Path) -> socket.socket | None:
    """A connection to the process that owns the graphs of a folder; None where none answers."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(_SECONDS_FOR_A_SEARCH)
    try:
        with short_path(folder) as path:
            connection.connect(path)
    except OSError:
        connection.close()
        return None
    return connection


class DistantGraphs:
    """The graphs of the process that owns a folder. Threads may share it. One that was restarted is found again."""

    def __init__(self, folder: Path, connection: socket.socket) -> None:
        self._folder = folder
        self._connection: socket.socket | None = connection
        self._one = Lock()
        self._silent_until = 0.0

    @property
    def lost(self) -> bool:
        """Whether the owner ended, so that another may be there. One that lives and says nothing is not lost."""
        return self._connection is None and time.monotonic() >= self._silent_until

    def names(self) -> list[str]:
        """As the owner lists them."""
        found = self._ask({"ask": "names"}).said.get("names")
        return [str(name) for name in found] if isinstance(found, list) else []

    def count(self, name: str) -> int:
        """As the owner counts."""
        found = self._ask({"ask": "count", "name": name}, seconds=_SECONDS_FOR_A_SEARCH).said.get("count")
        return found if isinstance(found, int) else 0

    def put(self, name: str, seqs: Seqs, matrix: Matrix, *, within: float = PATIENT) -> None:
        """In portions that let others come in between."""
        for at in range(0, len(seqs), _PART):
            numbers = np.ascontiguousarray(seqs[at : at + _PART], np.int64)
            rows = np.ascontiguousarray(matrix[at : at + _PART], np.float32)
            said: dict[str, JsonValue] = {"ask": "put", "name": name, "rows": len(numbers)}
            self._ask(said, numbers.tobytes() + rows.tobytes(), seconds=max(within, _SECONDS_FOR_A_SEARCH))

    def take(self, name: str, seqs: Collection[int], *, within: float = PATIENT) -> None:
        """All at once."""
        data = np.array(list(seqs), np.int64).tobytes()
        self._ask({"ask": "take", "name": name}, data, seconds=max(within, _SECONDS_FOR_A_SEARCH))

    def nearest(self, name: str, vector: Matrix, limit: int) -> Seqs:
        """By the owner's graph."""
        asked: dict[str, JsonValue] = {"ask": "nearest", "name": name, "limit": limit}
        data = np.ascontiguousarray(vector, np.float32).tobytes()
        answer = self._ask(asked, data, seconds=_SECONDS_FOR_A_SEARCH)
        return np.frombuffer(answer.data, np.int64)

    def drop(self, name: str) -> None:
        """At the owner."""
        self._ask({"ask": "drop", "name": name})

    def owner(self) -> int:
        """The pid of the process that answers."""
        found = self._ask({"ask": "who"}, seconds=_SECONDS_FOR_A_SEARCH).said.get("pid")
        return found if isinstance(found, int) else 0

    def close(self) -> None:
        """End the connection."""
        with self._one:
            self._hang_up()

    def _ask(self, said: Mapping[str, JsonValue], data: bytes = b"", *, seconds: float = PATIENT) -> Message:
        message = Message(said, data)
        with self._one:
            answer = self._once(message, seconds) or self._once(message, seconds)
        if answer is None:
            raise IndexFailed(str(self._folder), "the process that owns it does not answer")
        if isinstance(error := answer.said.get("error"), str):
            raise IndexFailed(str(self._folder), error)
        return answer

    def _once(self, message: Message, seconds: float) -> Message | None:
        """One attempt: whatever is asked may be asked twice, but not of an owner that lives and says nothing."""
        if time.monotonic() < self._silent_until:
            return None
        if self._connection is None:
            self._connection = connect(self._folder)
        if self._connection is None:
            return None
        self._connection.settimeout(seconds)
        try:
            send(self._connection, message)
            if (answer := receive(self._connection)) is not None:
                return answer
        except TimeoutError:
            self._silent_until = time.monotonic() + _LEFT_ALONE
        except OSError:
            pass  # it ended, or was replaced
        self._hang_up()
        return None

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
