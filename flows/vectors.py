"""The owner of a home's vectors: a background process beside server and worker, started by `instar up`.

Recall works without it: then whoever comes first opens the vectors for itself, and others do without. It is alive
exactly as long as it holds its lock (see `instar.flows.daemon`), and is found by its socket (see
`instar.memstore.recall.owner`). This module never imports Prefect.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from instar.core.settings import Settings
from instar.flows.daemon import POLL, Daemon
from instar.flows.errors import VectorsEnded
from instar.flows.exclusive import alone
from instar.flows.orphans import MARK
from instar.flows.server import usable
from instar.memstore.recall.owner import answers, owner_of, wanted
from instar.memstore.recall.wire import SOCKET

START_TIMEOUT = 30.0
STOP_TIMEOUT = 30.0
GRACE = 10.0
BOOTING = 60.0
OWNING = (sys.executable, "-P", "-m", "instar.flows.owning")
State = Literal["running", "waits", "starting", "hangs", "ended", "stopped"]


@dataclass(frozen=True, slots=True)
class VectorsStatus:
    """What there is to say about the owner of a home's vectors."""

    state: State
    """`waits`: another process has the vectors for itself, and lets go when it ends or uses them next."""
    pid: int | None
    log: Path


class VectorsOwner:
    """The owner of the vectors of one home. Everything it knows is on disk; any number of these may exist."""

    def __init__(self, home: Path, *, command: Sequence[str] = OWNING) -> None:
        """`command` becomes the process, and keeps to what `instar.flows.owning` does at its start."""
        self.home = home.expanduser().absolute()
        self._command = tuple(command)
        self._index = self.home / "index"
        self._folder = self._index / "chroma"
        self._daemon = Daemon(self._index / "vectors.alive", self.home / "logs" / "vectors.log")

    def start(self, *, timeout: float = START_TIMEOUT) -> VectorsStatus:
        """Return the process that owns the vectors, or waits for them; start it where there is none.

        Raises:
            HomeNotUsable: the folder of the index cannot be written.
            ServerBusy: another start or stop did not end within `timeout` seconds.
            VectorsEnded: it ended while it was starting, or did not answer in time; it was stopped again.
            CannotEnd: one that hangs is still there.
        """
        with usable(self._index):
            for folder in (self._index, self._daemon.log.parent):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with alone(self._index / "vectors.lock", self.home, timeout):
                status = self.status()
                if status.state in ("running", "waits"):
                    return status
                self._daemon.end(GRACE)
                return self._launch(timeout)

    def stop(self, *, timeout: float = STOP_TIMEOUT) -> bool:
        """End the process; return whether there was one.

        Raises:
            CannotEnd: it is still there.
            ServerBusy: another start or stop did not end within `timeout` seconds.
            HomeNotUsable: the folder of the index cannot be written.
        """
        with usable(self._index):
            if not self._index.is_dir():
                return False
            with alone(self._index / "vectors.lock", self.home, timeout):
                ended = self._daemon.end(GRACE)
                (self._folder / SOCKET).unlink(missing_ok=True)
                return ended

    def status(self) -> VectorsStatus:
        """Whether it answers, waits, starts, hangs, ended by itself, or is stopped. Changes nothing.

        Raises:
            HomeNotUsable: the folder of the index cannot be read.
        """
        with usable(self._index):
            if not self._daemon.alive():
                gone: State = "ended" if (self._folder / SOCKET).exists() else "stopped"
                return VectorsStatus(gone, None, self._daemon.log)
            grown = self._daemon.age() >= BOOTING
            state: State = "hangs" if grown else "starting"
            # Until it is grown it listens before it can answer; one that was stopped listens too, and never does.
            if owner_of(self._folder) if grown else answers(self._folder):
                state = "running"
            elif wanted(self._folder):
                state = "waits"
            return VectorsStatus(state, self._daemon.pid(), self._daemon.log)

    def _launch(self, timeout: float) -> VectorsStatus:
        log, logged, began = self._daemon.log, self._daemon.turn_log(), time.monotonic()
        with self._daemon.claim() as claimed:
            if claimed is None:
                return self.status()
            try:
                self._daemon.spawn(
                    claimed,
                    self._command,
                    given=json.dumps({"folder": str(self._folder)}),
                    keep=[],
                    # It outlives the worker, also where a run of the worker starts it.
                    environment={name: value for name, value in os.environ.items() if name != MARK},
                    directory=self._index,
                )
            except subprocess.CalledProcessError:
                raise VectorsEnded(log, time.monotonic() - began, self._daemon.last_lines(logged)) from None
        while (status := self.status()).state not in ("running", "waits"):
            waited = time.monotonic() - began
            if waited > timeout or not self._daemon.alive():
                self._daemon.end(GRACE)
                raise VectorsEnded(log, waited, self._daemon.last_lines(logged))
            time.sleep(POLL)
        return status


def needed(settings: Settings) -> bool:
    """Whether the vectors of these settings are in a folder: not in PostgreSQL, and not on a server that is named."""
    return settings.database.startswith("sqlite:") and not settings.index_server
