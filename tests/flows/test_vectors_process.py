"""The background process that owns the vectors of a home: started, found, killed, replaced, waiting for its turn."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.flows_home import until
from instar.core.doctor import examine
from instar.core.recall import recall_of
from instar.core.runtime import runtime
from instar.core.settings import Settings
from instar.flows.errors import VectorsEnded
from instar.flows.vectors import VectorsOwner, needed
from instar.memstore import PageDraft, PageType
from instar.memstore.recall.owner import OwnerLock


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "home"
    made.mkdir(mode=0o700)
    yield made
    VectorsOwner(made).stop()


def test_starting_it_twice_gives_the_same_process_and_stopping_ends_it(home: Path) -> None:
    owner = VectorsOwner(home)
    assert owner.status().state == "stopped"
    first, second = owner.start(), owner.start()
    assert (first.state, second.pid) == ("running", first.pid)
    assert first.pid is not None
    assert "worker" not in str((Path("/proc") / str(first.pid) / "cmdline").read_bytes())
    assert owner.stop()
    assert not owner.stop()
    assert (owner.status().state, (home / "index" / "chroma" / "owner.sock").exists()) == ("stopped", False)


def test_a_killed_one_is_named_and_replaced(home: Path) -> None:
    owner = VectorsOwner(home)
    first = owner.start()
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: owner.status().state == "ended", "the killed one is noticed")
    again = owner.start()
    assert again.state == "running"
    assert again.pid != first.pid


def test_one_that_was_stopped_hangs_when_it_is_no_longer_young_and_is_replaced(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instar.memstore.recall.wire._SECONDS_FOR_A_SEARCH", 0.5)
    owner = VectorsOwner(home)
    first = owner.start()
    assert first.pid is not None
    os.kill(first.pid, signal.SIGSTOP)
    try:
        os.utime(home / "index" / "vectors.alive", (0, 0))  # it was started long ago
        assert owner.status().state == "hangs"
        again = owner.start()
        assert (again.state, again.pid != first.pid) == ("running", True)
    finally:
        with suppress(ProcessLookupError):
            os.kill(first.pid, signal.SIGCONT)


def test_it_waits_for_who_has_the_vectors_and_then_takes_over(home: Path) -> None:
    owner = VectorsOwner(home)
    with OwnerLock(home / "index" / "chroma"):
        assert owner.start().state == "waits"
        assert owner.start().state == "waits"
    until(lambda: owner.status().state == "running", "it takes over")


def test_one_that_ends_at_its_start_shows_its_last_words(home: Path) -> None:
    failing = (sys.executable, "-c", "import sys; sys.exit('no room on the disk')")
    with pytest.raises(VectorsEnded, match="no room on the disk"):
        VectorsOwner(home, command=failing).start()
    assert VectorsOwner(home).status().state == "stopped"


def test_recall_and_doctor_find_it_without_configuration(home: Path) -> None:
    settings = Settings(home=home)
    owner = VectorsOwner(home).start()
    with runtime(settings) as rt:
        with rt.store.writeback(rt.principal, scope="local") as batch:
            batch.append(PageDraft("note", PageType.CONVERSATION, text="the red lamp", id="a"))
        with recall_of(rt) as one, recall_of(rt) as other:
            one.catch_up()
            assert (one.state().vectors, other.state().vectors, other.state().reasons) == (1, 1, ())
    (found,) = [check.detail for check in examine(settings) if check.part == "index"]
    assert found.startswith(f"process {owner.pid} ")


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, True),
        ({"index_server": "127.0.0.1:8000"}, False),
        ({"store_url": "postgresql+psycopg://localhost/instar"}, False),
    ],
)
def test_it_is_needed_where_the_vectors_are_in_the_home(
    tmp_path: Path, changes: dict[str, str], wanted: bool
) -> None:
    assert needed(Settings.model_validate({"home": tmp_path, **changes})) is wanted
