"""A home in which everything runs, asked and looked at through Prefect's API and the store."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from pydantic import JsonValue

from instar.core.night import Night, nights
from instar.core.runtime import runtime
from instar.core.settings import Settings, Source
from instar.flows.errors import PrefectRefused
from instar.flows.orphans import marked
from instar.flows.rest import Rest
from instar.flows.server import Server
from instar.flows.vectors import VectorsOwner
from instar.flows.worker import Worker

PATIENCE = 600.0
"""Seconds to wait for something that has to happen, on a machine that has other work as well."""
LOOK = 0.1
ALIVE = {"server": "prefect/server.alive", "worker": "prefect/worker.alive", "vectors": "index/vectors.alive"}
"""Where each process of a home says that it lives."""
LIVE = (*ALIVE, "run")


class TookTooLong(Exception):
    """Something that had to happen did not."""


class Home:
    """A home of its own with a folder of logs as its only source; nights run when asked, never by a schedule."""

    def __init__(self, path: Path, **settings: JsonValue) -> None:
        self.path, self.logs = path, path.with_name(f"{path.name}-logs")
        self.logs.mkdir(parents=True)
        path.mkdir(parents=True)
        values: dict[str, JsonValue] = {"nightly": "", "timezone": "UTC", "debounce_seconds": 2.0, **settings}
        lines = [f"{name} = {_toml(value)}" for name, value in values.items()]
        source = f'[[sources]]\npaths = ["{self.logs}"]\n'
        (path / "instar.toml").write_text("\n".join([*lines, source]), encoding="utf-8")
        sources = (Source(paths=(str(self.logs),)),)
        self.settings = Settings.model_validate({"home": path, "sources": sources, **values})

    def up(self) -> Rest:
        """Start what does not run, as `instar up` does."""
        info = Server(self.path).start(timeout=PATIENCE)
        Worker(self.path).start(info, self.settings, project=self.path, timeout=PATIENCE)
        VectorsOwner(self.path).start(timeout=PATIENCE)
        return self.rest

    @property
    def rest(self) -> Rest:
        """The API of its server; whether that answers is another matter."""
        info = Server(self.path).find()
        return Rest("http://127.0.0.1:9" if info is None else info.address)

    def down(self) -> list[int]:
        """End everything; returns the processes that are left, which should be none."""
        Worker(self.path).stop()
        VectorsOwner(self.path).stop()
        Server(self.path).stop()
        return marked(self.path)

    def ask(self, name: str, **parameters: JsonValue) -> str:
        """Start a run of a deployment; returns its id."""
        rest = self.rest
        deployment = rest.get(f"/deployments/name/{name}/{name}")
        if not isinstance(deployment, dict):
            raise PrefectRefused(rest.address, name, "there is no such deployment")
        run = rest.post(f"/deployments/{deployment['id']}/create_flow_run", {"parameters": parameters})
        return str(run["id"]) if isinstance(run, dict) else ""

    def run(self, run: str) -> Mapping[str, JsonValue]:
        """A flow run as Prefect describes it."""
        found = self.rest.get(f"/flow_runs/{run}")
        return found if isinstance(found, dict) else {}

    def runs(self, flow: str) -> list[Mapping[str, JsonValue]]:
        """The runs of a flow, the newest first."""
        found: list[Mapping[str, JsonValue]] = []
        while True:
            body: dict[str, JsonValue] = {
                "flows": {"name": {"any_": [flow]}},
                "sort": "EXPECTED_START_TIME_DESC",
                "limit": 200,
                "offset": len(found),
            }
            page = self.rest.post("/flow_runs/filter", body)
            rows = [row for row in page if isinstance(row, dict)] if isinstance(page, list) else []
            found += rows
            if len(rows) < 200:
                return found

    def last_night(self) -> Night | None:
        """The last night that was begun."""
        with runtime(self.settings) as rt:
            return next(nights(rt), None)

    def process_of(self, run: str) -> int | None:
        """The process of a flow run, by what Prefect puts into its environment."""
        for pid in marked(self.path):
            with suppress(OSError):
                if f"PREFECT__FLOW_RUN_ID={run}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    return pid
        return None

    def kill(self, victim: str, run: str) -> bool:
        """SIGKILL server, worker, owner of the vectors, or the process of a run; returns whether it was there."""
        if victim == "run":
            pid = self.process_of(run)
        else:
            written = (self.path / ALIVE[victim]).read_text(encoding="ascii").strip()
            pid = int(written) if written.isdigit() else None
        if pid is None:
            return False
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        # On a busy machine a killed process still holds its locks for a moment.
        until(lambda: _gone(pid), f"the {victim} is gone")
        return True


def until(condition: Callable[[], object], what: str, *, patience: float = PATIENCE, look: float = LOOK) -> None:
    """Wait for something; a server that does not answer meanwhile is asked again.

    Raises:
        TookTooLong: it did not happen in time.
    """
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        with suppress(PrefectRefused):
            if condition():
                return
        time.sleep(look)
    raise TookTooLong(what)


def _gone(pid: int) -> bool:
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return True


def _toml(value: JsonValue) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
