"""The worker of a home: the background process that runs the deployed flows, next to the Prefect server.

Started by `instar up`, one for each home, alive exactly as long as it holds its lock (see `instar.flows.daemon`). It
serves one server at one address under one set of settings; where either changed it is replaced. What it started
carries a mark in its environment, so that a run which outlived a killed worker is found and ended. This module never
imports Prefect.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from instar.core.settings import Settings
from instar.flows.daemon import POLL, PRIVATE, Daemon
from instar.flows.deployments import DEPLOYMENTS
from instar.flows.environment import child_environment
from instar.flows.errors import WorkerEnded, WorkerNotReady
from instar.flows.exclusive import alone
from instar.flows.orphans import MARK, end_marked
from instar.flows.record import ServerInfo
from instar.flows.server import usable

START_TIMEOUT = 120.0
STOP_TIMEOUT = 60.0
GRACE = 20.0
"""Seconds that runs have to end before they are killed."""
BEAT = 60.0
"""A worker that has not shown itself for so many seconds hangs."""
WORKING = (sys.executable, "-P", "-m", "instar.flows.working")
State = Literal["running", "starting", "hangs", "ended", "stopped"]


class WorkerRecord(BaseModel):
    """What a worker says of itself once it serves: `prefect/worker.json`, touched at every beat."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    pid: int
    address: str
    settings: str
    """The fingerprint of what it was started with; it tells nothing about it."""
    served: list[str]


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """What there is to say about the worker of a home. `record` is set while it serves."""

    state: State
    record: WorkerRecord | None
    log: Path


class Worker:
    """The worker of one home. Everything it knows is on disk; any number of these may exist."""

    def __init__(self, home: Path, *, command: Sequence[str] = WORKING) -> None:
        """`command` becomes the worker process, and keeps to what `instar.flows.working` does at its start."""
        self.home = home.expanduser().absolute()
        self._command = tuple(command)
        self._prefect = self.home / "prefect"
        self._record = self._prefect / "worker.json"
        self._daemon = Daemon(self._prefect / "worker.alive", self.home / "logs" / "worker.log")

    def start(
        self, server: ServerInfo, settings: Settings, *, project: Path, timeout: float = START_TIMEOUT
    ) -> WorkerRecord:
        """Return the worker that serves this server under these settings; start or replace it where there is none.

        `project` is the folder whose `instar.toml` counts. The server has to answer.

        Raises:
            HomeNotUsable: the home cannot be written.
            ServerBusy: another start or stop did not end within `timeout` seconds.
            WorkerEnded: it ended while it was starting; the error shows its last words.
            WorkerNotReady: it did not begin to serve within `timeout` seconds; it was stopped again.
            CannotEnd: an earlier worker that has to go is still there.
        """
        wanted = fingerprint(server, settings, project)
        with usable(self.home):
            self._prefect.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._daemon.log.parent.mkdir(mode=0o700, exist_ok=True)
            with alone(self._prefect / "worker.lock", self.home, timeout):
                status = self.status()
                record = status.record
                if record is not None and (record.address, record.settings) == (server.address, wanted):
                    return record
                self._end()
                return self._launch(server, settings, project, wanted, timeout)

    def stop(self, *, timeout: float = STOP_TIMEOUT) -> bool:
        """End the worker with every run it started; return whether there was one.

        Raises:
            CannotEnd: something is still there.
            ServerBusy: another start or stop did not end within `timeout` seconds.
            HomeNotUsable: the home cannot be written.
        """
        with usable(self.home):
            if not self._prefect.is_dir():
                return False
            with alone(self._prefect / "worker.lock", self.home, timeout):
                return self._end()

    def status(self) -> WorkerStatus:
        """Whether the worker serves, starts, hangs (lives, but is silent), ended by itself, or is stopped."""
        with usable(self.home):
            if not self._daemon.alive():
                gone: State = "ended" if self._record.exists() else "stopped"
                return WorkerStatus(gone, None, self._daemon.log)
            record = self._read()
            if record is None or record.pid != self._daemon.pid():
                state: State = "starting" if self._daemon.age() < START_TIMEOUT else "hangs"
                return WorkerStatus(state, None, self._daemon.log)
            quiet = time.time() - self._record.stat().st_mtime
        return WorkerStatus("running", record, self._daemon.log) if quiet < BEAT else self._hanging()

    def _hanging(self) -> WorkerStatus:
        return WorkerStatus("hangs", None, self._daemon.log)

    def _launch(
        self, server: ServerInfo, settings: Settings, project: Path, wanted: str, timeout: float
    ) -> WorkerRecord:
        log, logged, began = self._daemon.log, self._daemon.turn_log(), time.monotonic()
        given = {"address": server.address, "token": server.token, "settings": wanted}
        with self._daemon.claim() as claimed:
            if claimed is None:
                raise WorkerNotReady(log, 0.0, "another worker appeared meanwhile")
            try:
                pid = self._daemon.spawn(
                    claimed,
                    self._command,
                    given=json.dumps(given),
                    keep=[],
                    environment=worker_environment(settings, server.address, project, os.environ),
                    directory=self._prefect,
                )
            except subprocess.CalledProcessError:
                said = self._daemon.last_lines(logged)
                raise WorkerEnded(log, time.monotonic() - began, said) from None
        while (record := self._read()) is None or record.pid != pid:
            waited = time.monotonic() - began
            alive = self._daemon.alive()
            if not alive or waited > timeout:
                self._end()
                failure = WorkerNotReady if alive else WorkerEnded
                raise failure(log, waited, self._daemon.last_lines(logged))
            time.sleep(POLL)
        return record

    def _end(self) -> bool:
        ended = self._daemon.end(GRACE)
        left = end_marked(self.home)
        self._record.unlink(missing_ok=True)
        return ended or left > 0

    def _read(self) -> WorkerRecord | None:
        try:
            return WorkerRecord.model_validate_json(self._record.read_bytes())
        except (FileNotFoundError, ValidationError):
            return None


def write_worker_record(home: Path, record: WorkerRecord) -> None:
    """Tell, in one step, that the worker serves. For the worker itself.

    Raises:
        OSError: it cannot be written.
    """
    path = home / "prefect" / "worker.json"
    draft = path.with_name(f"{path.name}.{record.pid}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE), "w") as file:
        file.write(record.model_dump_json())
    draft.replace(path)


def fingerprint(server: ServerInfo, settings: Settings, project: Path) -> str:
    """Changes exactly when a worker has to be started anew: with the server, the settings, or what is served."""
    served = [(each.name, each.flow, each.at_once) for each in DEPLOYMENTS]
    told = [server.token, settings.model_dump_json(), str(project), repr(served)]
    return hashlib.sha256("\0".join(told).encode()).hexdigest()


def worker_environment(
    settings: Settings, address: str, project: Path, inherited: Mapping[str, str]
) -> dict[str, str]:
    """The environment of the worker and of every run it starts: the settings that count, and the mark."""
    chosen = {"INSTAR_HOME": str(settings.home), "INSTAR_PROJECT": str(project), "INSTAR_SCOPE": settings.scope}
    return child_environment(settings.home, address, inherited) | chosen | {MARK: str(settings.home)}
