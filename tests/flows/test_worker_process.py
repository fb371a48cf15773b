"""The worker as a process: one for each home, found again, replaced when out of date, ended with its children."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from instar.core.settings import Settings
from instar.flows.errors import WorkerEnded, WorkerNotReady
from instar.flows.orphans import marked
from instar.flows.record import ServerInfo
from instar.flows.worker import BEAT, Worker

FAKE = Path(__file__).with_name("fake_working.py")
SERVER = ServerInfo("http://127.0.0.1:4210", 1, datetime(2026, 1, 1, tzinfo=UTC), "t" * 64)
Make = Callable[[str], Worker]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home of" / "Instär"


@pytest.fixture
def make(home: Path) -> Iterator[Make]:
    """A worker of this home in one of the ways of the stand-in."""
    yield lambda mode: Worker(home, command=(sys.executable, str(FAKE), mode))
    Worker(home).stop()
    assert marked(home) == []


def start(worker: Worker, server: ServerInfo = SERVER, timeout: float = 30.0, **settings: str) -> int:
    values = Settings.model_validate({"home": worker.home} | settings)
    return worker.start(server, values, project=worker.home, timeout=timeout).pid


def test_a_second_start_finds_the_first(make: Make) -> None:
    worker = make("serves")
    first = start(worker)
    assert start(make("serves")) == first
    status = worker.status()
    assert (status.state, status.record and status.record.served) == ("running", ["evolve"])


@pytest.mark.parametrize("change", ["settings", "server"])
def test_a_worker_that_is_out_of_date_is_replaced(make: Make, change: str) -> None:
    first = start(make("serves"))
    other = ServerInfo(SERVER.address, 2, SERVER.started_at, "u" * 64)
    second = start(make("serves"), nightly="0 4 * * *") if change == "settings" else start(make("serves"), other)
    assert second != first
    assert not alive(first)


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_stopping_ends_what_it_started_even_what_left_its_group(make: Make, home: Path) -> None:
    start(make("family"))
    assert len(marked(home)) >= 2
    assert make("family").stop()
    assert marked(home) == []
    assert not make("family").stop()


def test_what_outlives_a_killed_worker_is_ended_by_the_next_start(make: Make, home: Path) -> None:
    first = start(make("family"))
    children = set(marked(home)) - {first}
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: not alive(first))
    assert make("family").status().state == "ended"
    assert children <= set(marked(home))
    second = start(make("serves"))
    assert marked(home) == [second]


def test_another_home_is_left_alone(make: Make, tmp_path: Path) -> None:
    other = Worker(tmp_path / "other", command=(sys.executable, str(FAKE), "serves"))
    pid = start(other)
    start(make("serves"))
    make("serves").stop()
    assert alive(pid)
    assert other.stop()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(("mode", "words"), [("ends", "a flow cannot be imported"), ("broken", "no module named")])
def test_a_worker_that_ends_while_starting_shows_its_last_words(make: Make, mode: str, words: str) -> None:
    with pytest.raises(WorkerEnded, match=words):
        start(make(mode))
    assert make(mode).status().state == "stopped"


def test_a_worker_that_never_serves_is_ended_again(make: Make, home: Path) -> None:
    with pytest.raises(WorkerNotReady, match="booting"):
        start(make("silent"), timeout=5.0)
    assert marked(home) == []


def test_a_worker_that_no_longer_shows_itself_hangs_and_is_replaced(make: Make, home: Path) -> None:
    first = start(make("serves"))
    then = time.time() - 2 * BEAT
    os.utime(home / "prefect" / "worker.json", (then, then))
    assert make("serves").status().state == "hangs"
    assert start(make("serves")) != first
    assert not alive(first)


def test_nothing_is_made_in_a_home_that_only_is_asked(home: Path) -> None:
    assert Worker(home).status().state == "stopped"
    assert not Worker(home).stop()
    assert not home.exists()
