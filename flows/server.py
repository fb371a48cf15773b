"""The Prefect server of a home: started in the background, found again, stopped.

How a server is known to be ours: it is asked to prove it. Each start makes a fresh token, writes it to `server.json`
(readable by its owner only) and hands it to the server through a pipe. The server answers a random challenge with
an HMAC of it, so the token itself never goes to a stranger who took the port over. The alternatives are weaker or
worse: Prefect's own password would make the UI ask for one, and a pid with its start time says that some process
lives, not that it is the one that answers at this address. Whether a server is alive, answering or not, is told by
the lock that it holds (see `instar.flows.daemon`).
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal
from uuid import UUID

from instar.flows.daemon import POLL, Daemon
from instar.flows.environment import child_environment
from instar.flows.errors import (
    HomeFull,
    HomeNotUsable,
    LoopbackDown,
    NotAFolder,
    PortTaken,
    ServerEnded,
    ServerNotReady,
    ServerNotRunning,
)
from instar.flows.exclusive import alone
from instar.flows.identity import answers
from instar.flows.record import HOST, ServerInfo, read_record, write_record
from instar.memstore.disk import is_full, out_of_room

__all__ = ["PORTS", "Server", "ServerInfo", "ServerStatus", "run_prefect", "run_url"]

PORTS = range(4210, 4260)
"""Where a free port is looked for, beginning at a place that depends on the home: links to runs then stay valid."""

START_TIMEOUT = 120.0
STOP_TIMEOUT = 30.0
GRACE = 10.0
BOOTING = 60.0
"""A server that is younger than this and does not answer is starting, one that is older hangs."""
PATIENCE = 10.0
ANSWER_TIMEOUT = 2.0
State = Literal["running", "starting", "hangs", "stopped"]
SERVING = (sys.executable, "-P", "-m", "instar.flows.serving")


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """What there is to say about the server of a home. `info` is set while it runs."""

    state: State
    info: ServerInfo | None
    log: Path


class Server:
    """The Prefect server of one home. Everything it knows is on disk; any number of these may exist."""

    def __init__(self, home: Path, *, command: Sequence[str] = SERVING, patience: float = PATIENCE) -> None:
        """`command` becomes the server process, and keeps to what `instar.flows.serving` does at its start.

        A server that should answer and is silent for `patience` seconds is taken to hang.
        """
        self.home = home.expanduser().absolute()
        self._command, self._patience = tuple(command), patience
        self._prefect = self.home / "prefect"
        self._record = self.home / "server.json"
        self._daemon = Daemon(self._prefect / "server.alive", self.home / "logs" / "prefect-server.log")

    def start(self, *, port: int | None = None, timeout: float = START_TIMEOUT) -> ServerInfo:
        """Return the running server, or start one and wait until it answers.

        Of several starts at once one starts the server and the others get the same. What a crashed server left
        behind is cleaned up, a server that hangs is replaced. `port` only matters where none runs yet.

        Raises:
            HomeNotUsable: the home cannot be written.
            LoopbackDown: nothing could reach a server here.
            PortTaken: the port, or without `port` every port of the range, is in use by others.
            ServerBusy: another start or stop did not end within `timeout` seconds.
            ServerEnded: the server ended while it was starting; the error shows its last words.
            ServerNotReady: it did not answer within `timeout` seconds; it was stopped again if this call started it.
        """
        if (info := self.find()) is not None:
            return info
        with usable(self.home):
            for folder in (self.home, self._prefect, self._daemon.log.parent):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._prefect.chmod(0o700)
        _require_loopback()
        began = time.monotonic()
        with self._alone(timeout):
            while (info := self.find()) is None:
                with usable(self.home), self._daemon.claim() as claimed:
                    launched = None if claimed is None else self._launch(claimed, port)
                waited = time.monotonic() - began
                if launched is not None:
                    return self._await_ready(*launched, timeout)
                if waited > timeout:
                    raise ServerNotReady(self._daemon.log, waited, self._daemon.last_lines(0))
                # A starter writes the record before it lets others in: without one, it was cut off.
                cut_off = self._read() is None
                if cut_off or (waited > self._patience and self._daemon.age() > BOOTING):
                    self._daemon.end(GRACE)
                time.sleep(POLL)
            return info

    def stop(self, *, timeout: float = STOP_TIMEOUT) -> bool:
        """End the server with everything it started; return whether there was one.

        Raises:
            CannotEnd: it is still there.
            ServerBusy: another start or stop did not end within `timeout` seconds.
            HomeNotUsable: the home cannot be written.
        """
        with usable(self.home):
            if not self._prefect.is_dir():
                return False
        with self._alone(timeout):
            ended = self._daemon.end(GRACE)
            with usable(self.home):
                self._record.unlink(missing_ok=True)
        return ended

    def find(self) -> ServerInfo | None:
        """The server, if it answers and is ours. Changes nothing.

        Raises:
            HomeNotUsable: the home belongs to someone else.
        """
        info = self._read()
        return info if info is not None and self._answers(info) else None

    def status(self) -> ServerStatus:
        """Whether the server runs, starts, hangs (lives, but does not answer) or is stopped. Changes nothing."""
        info = self.find()
        state: State = "stopped"
        if info is not None:
            state = "running"
        else:
            with usable(self.home):
                if self._daemon.alive():
                    state = "starting" if self._daemon.age() <= BOOTING else "hangs"
        return ServerStatus(state, info, self._daemon.log)

    def _launch(self, claimed: int, port: int | None) -> tuple[ServerInfo, int]:
        """Start the process on a port that is already bound: no one can take it in between."""
        log, logged = self._daemon.log, self._daemon.turn_log()
        token = secrets.token_hex(32)
        with self._bind(port) as listener:
            address = f"http://{HOST}:{listener.getsockname()[1]}"
            given = {"token": token, "address": address, "socket": listener.fileno()}
            started = time.monotonic()
            try:
                pid = self._daemon.spawn(
                    claimed,
                    self._command,
                    given=json.dumps(given),
                    keep=[listener.fileno()],
                    environment=child_environment(self.home, address, os.environ),
                    directory=self._prefect,
                )
            except subprocess.CalledProcessError:
                seconds = time.monotonic() - started
                raise ServerEnded(log, seconds, self._daemon.last_lines(logged)) from None
        return ServerInfo(address, pid, datetime.now(UTC), token), logged

    def _await_ready(self, info: ServerInfo, logged: int, timeout: float) -> ServerInfo:
        try:
            with usable(self.home):
                write_record(self._record, info)
        except HomeNotUsable:
            self._daemon.end(GRACE)
            raise
        started = time.monotonic()
        while not self._answers(info):
            waited = time.monotonic() - started
            alive = self._daemon.alive()
            if alive and waited <= timeout:
                time.sleep(POLL)
                continue
            self._daemon.end(GRACE)
            self._record.unlink(missing_ok=True)
            if is_full(self.home):
                raise HomeFull(self.home, f"the Prefect server found no space (see {self._daemon.log})")
            failure = ServerNotReady if alive else ServerEnded
            raise failure(self._daemon.log, waited, self._daemon.last_lines(logged))
        return info

    def _answers(self, info: ServerInfo) -> bool:
        return answers(info.address, info.token, timeout=min(ANSWER_TIMEOUT, self._patience))

    def _bind(self, port: int | None) -> socket.socket:
        if port is not None:
            candidates: Sequence[int] = [port]
        else:
            first = zlib.crc32(os.fsencode(self.home)) % len(PORTS)
            candidates = [*PORTS[first:], *PORTS[:first]]
        for candidate in candidates:
            listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((HOST, candidate))
            except OSError:
                listener.close()
            else:
                return listener
        raise PortTaken(min(candidates), max(candidates))

    def _read(self) -> ServerInfo | None:
        with usable(self.home):
            return read_record(self._record)

    @contextmanager
    def _alone(self, timeout: float) -> Iterator[None]:
        """Keep other starts and stops of this home out."""
        with ExitStack() as held:
            with usable(self.home):
                held.enter_context(alone(self._prefect / "server.lock", self.home, timeout))
            yield


def _require_loopback() -> None:
    """Ask the kernel for a route, and send nothing: a port can be bound also where nothing ever reaches it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect((HOST, PORTS.start))
        except OSError as error:
            raise LoopbackDown(error.strerror or str(error)) from None


def run_url(info: ServerInfo, flow_run_id: UUID | str) -> str:
    """The page of a flow run in the UI.

    Raises:
        ValueError: the id is not a UUID.
    """
    return f"{info.address}/runs/flow-run/{UUID(str(flow_run_id))}"


def run_prefect(home: Path, arguments: Sequence[str]) -> int:
    """Run Prefect's own command line against the server of `home`, on this terminal; return its exit code.

    Raises:
        ServerNotRunning: there is no server; Prefect by itself would start an empty one and show nothing.
    """
    server = Server(home)
    info = server.find()
    if info is None:
        raise ServerNotRunning(server.home)
    environment = child_environment(server.home, info.address, os.environ)
    return subprocess.call([sys.executable, "-P", "-m", "prefect", *arguments], env=environment)


@contextmanager
def usable(home: Path) -> Iterator[None]:
    """Say in one line what the operating system has against using the home."""
    try:
        yield
    except OSError as error:
        kind = HomeNotUsable
        if out_of_room(error, home):
            kind = HomeFull
        elif isinstance(error, FileExistsError | NotADirectoryError | IsADirectoryError):
            kind = NotAFolder
        raise kind(home, str(error)) from error
