"""One real Prefect server for the whole folder, and a look at which processes of a home are alive."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from instar.flows.server import Server, ServerInfo

LeftOver = Callable[[Path], list[int]]


@pytest.fixture(scope="session")
def left_over() -> LeftOver:
    """The living processes that work in a home, found in /proc and not through anything that Instar wrote."""

    def look(home: Path) -> list[int]:
        found = []
        for process in Path("/proc").iterdir():
            if not process.name.isdigit() or int(process.name) == os.getpid():
                continue
            try:
                ours = (process / "cwd").readlink() == home / "prefect"
            except OSError:  # ended meanwhile, or a zombie
                continue
            if ours:
                found.append(int(process.name))
        return sorted(found)

    return look


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, left_over: LeftOver) -> Iterator[Server]:
    """The server of a home whose path is as unpleasant as paths are."""
    server = Server(tmp_path_factory.mktemp("home of") / "Instär")
    yield server
    server.stop()
    assert left_over(server.home) == []


@pytest.fixture
def running(server: Server) -> ServerInfo:
    """The real server, running."""
    return server.start(timeout=240)
