"""The SQLite file on its bad days: every failure has a name and a remedy, and nothing is half-written."""

import os
import pickle
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from instar.memstore import (
    InvalidRequest,
    PageDraft,
    PageType,
    Rejected,
    StoreCorrupted,
    StoreFull,
    StoreLocked,
    StoreNotPermitted,
    StoreReadOnly,
    StoreTooNew,
    StoreUnavailable,
    open_store,
)
from instar.memstore.backend import Query
from instar.memstore.testing import ALICE, DESK, step, write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def filled(path: Path, pages: int = 3) -> None:
    with open_store(f"sqlite:///{path}") as store:
        write(store, *(step(id=f"p{n}", content={"n": n}) for n in range(pages)))


def test_the_file_is_private_and_so_are_its_companions(path: Path) -> None:
    with open_store(f"sqlite:///{path}") as store:
        write(store, step())
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert set(modes) == {"store.db", "store.db-wal", "store.db-shm"}
    assert set(modes.values()) == {0o600}


def test_pages_survive_closing(path: Path) -> None:
    filled(path)
    with open_store(f"sqlite:///{path}") as store:
        assert [page.id for page in store.find(ALICE, scope="local")] == ["p0", "p1", "p2"]
        assert store.check() == []


def test_a_path_with_signs_that_mean_something_in_addresses_is_only_a_path(tmp_path: Path) -> None:
    odd = tmp_path / "a?b=c#d e"
    odd.mkdir()
    filled(odd / "store.db")
    assert (odd / "store.db").exists()


def test_commits_are_synchronous_and_foreign_keys_are_on(path: Path) -> None:
    with open_store(f"sqlite:///{path}") as store, store._backend.read() as view:
        pragma = view.connection.exec_driver_sql  # type: ignore[attr-defined]
        assert pragma("PRAGMA synchronous").scalar() == 2
        assert pragma("PRAGMA foreign_keys").scalar() == 1
        assert pragma("PRAGMA journal_mode").scalar() == "wal"


def test_a_lock_held_over_the_busy_time_out_is_named_and_nothing_is_written(path: Path) -> None:
    filled(path)
    other = sqlite3.connect(path, isolation_level=None)
    with open_store(f"sqlite:///{path}", busy_timeout=0.1) as store:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreLocked) as error:
            write(store, step(id="late"))
        assert str(path) in str(error.value)
        other.execute("ROLLBACK")
        assert store.get(ALICE, "late") is None
        assert write(store, step(id="late")).committed == {"late": 1}
    other.close()


def test_who_waits_for_the_lock_looks_again_and_again_instead_of_sleeping_through_the_commits_of_others(
    path: Path,
) -> None:
    filled(path)
    other = sqlite3.connect(path, isolation_level=None)
    looks: list[str] = []
    with open_store(f"sqlite:///{path}", busy_timeout=0.2) as store:
        write(store, step(id="early"))
        store._backend._writing.driver.set_trace_callback(looks.append)  # type: ignore[attr-defined]
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreLocked):
            write(store, step(id="late"))
        other.execute("ROLLBACK")
    assert len(looks) > 3
    assert set(looks) == {"BEGIN IMMEDIATE"}
    other.close()


def test_a_writer_that_waits_writes_once_the_lock_is_free(path: Path) -> None:
    filled(path)
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    with open_store(f"sqlite:///{path}") as store:
        other.execute("BEGIN IMMEDIATE")
        free = threading.Timer(0.05, other.execute, ["ROLLBACK"])
        free.start()
        assert write(store, step(id="late")).committed == {"late": 1}
        free.join()
    other.close()


HOLDER = """
import sys
from instar.memstore import open_store
from instar.memstore.testing import ALICE, DESK, step
def hold(_):
    print("held", flush=True)
    sys.stdin.readline()
with open_store(sys.argv[1]) as store:
    store._backend.write(hold)
"""


def test_another_process_that_keeps_the_lock_is_waited_for_and_then_named(path: Path) -> None:
    filled(path)
    address = f"sqlite:///{path}"
    command = [sys.executable, "-c", HOLDER, address]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder,
        open_store(address, busy_timeout=0.1) as store,
    ):
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreLocked):
            write(store, step(id="late"))
        assert [page.id for page in store.find(ALICE, scope="local")] == ["p0", "p1", "p2"]
        holder.communicate("\n")
        assert write(store, step(id="late")).committed == {"late": 1}
        assert store.check() == []


def test_what_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.write_bytes(b"dear diary, " * 1000)
    with pytest.raises(StoreCorrupted):
        open_store(f"sqlite:///{path}")
    assert path.read_bytes() == b"dear diary, " * 1000


def test_a_database_of_something_else_is_refused_and_left_alone(path: Path) -> None:
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE things (name TEXT)")
    other.close()
    with pytest.raises(StoreCorrupted):
        open_store(f"sqlite:///{path}")
    other = sqlite3.connect(path)
    assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("things",)]
    other.close()


def test_a_damaged_file_is_reported(path: Path) -> None:
    filled(path, 400)
    content = bytearray(path.read_bytes())
    content[8192:40960] = os.urandom(32768)
    path.write_bytes(content)
    try:
        with open_store(f"sqlite:///{path}") as store:
            assert store.check() != []
    except StoreCorrupted as error:
        assert str(path) in str(error)


def test_changed_bytes_are_found_by_the_check(path: Path) -> None:
    filled(path)
    other = sqlite3.connect(path)
    other.execute("UPDATE versions SET content = '{\"n\":7}' WHERE page = 2")
    other.commit()
    other.close()
    with open_store(f"sqlite:///{path}") as store:
        assert store.check() == ["p1 version 1: the bytes do not match their hash"]


def test_a_lost_version_is_found_by_the_check(path: Path) -> None:
    filled(path)
    other = sqlite3.connect(path)
    other.execute("DELETE FROM versions WHERE page = 2")
    other.commit()
    other.close()
    with open_store(f"sqlite:///{path}") as store:
        assert store.check() == ["p1: the last version is missing"]


def test_a_file_from_a_newer_version_is_refused_and_left_alone(path: Path) -> None:
    filled(path)
    other = sqlite3.connect(path)
    other.execute("UPDATE store_meta SET value = '999' WHERE name = 'schema_version'")
    other.commit()
    other.close()
    with pytest.raises(StoreTooNew) as error:
        open_store(f"sqlite:///{path}")
    assert error.value.found == 999
    again = pickle.loads(pickle.dumps(error.value))  # noqa: S301
    assert (again.found, again.supported, str(again)) == (999, error.value.supported, str(error.value))


def test_a_full_disk_is_named_and_leaves_what_was_committed(path: Path) -> None:
    def limit(connection: sqlite3.Connection, _: object) -> None:
        connection.execute("PRAGMA max_page_count = 80")

    event.listen(Engine, "connect", limit)
    try:
        with open_store(f"sqlite:///{path}") as store:
            write(store, step(id="first"))
            with pytest.raises(StoreFull):
                write(store, *(step(id=f"p{n}", text="x" * 1000) for n in range(500)))
            assert store.count(ALICE, scope="local") == 1
            assert write(store, step(id="small")).committed == {"small": 1}
    finally:
        event.remove(Engine, "connect", limit)
    with open_store(f"sqlite:///{path}") as store:
        assert store.check() == []
        assert [page.id for page in store.find(ALICE, scope="local")] == ["first", "small"]


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that another user can enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


OPEN = """
import os, sys
from instar.memstore import open_store, StoreUnavailable
if os.geteuid() == 0:  # for root no permission counts
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
try:
    open_store(f"sqlite:///{sys.argv[1]}")
except StoreUnavailable as error:
    print(type(error).__name__, error)
"""


def opened_by_someone_else(path: Path) -> str:
    """What opening says to a user for whom permissions count."""
    return subprocess.run([sys.executable, "-c", OPEN, str(path)], capture_output=True, text=True, check=True).stdout


def test_a_read_only_file_is_named(shared: Path) -> None:
    filled(shared / "store.db")
    (shared / "store.db").chmod(0o444)
    said = opened_by_someone_else(shared / "store.db")
    assert said.startswith(StoreReadOnly.__name__)
    assert str(shared) in said


def test_a_file_that_may_not_be_opened_is_named(shared: Path) -> None:
    filled(shared / "store.db")
    (shared / "store.db").chmod(0)
    assert opened_by_someone_else(shared / "store.db").startswith(StoreNotPermitted.__name__)


def test_a_folder_that_may_not_be_written_is_named(shared: Path) -> None:
    shared.chmod(0o555)
    assert opened_by_someone_else(shared / "new" / "store.db").startswith(StoreNotPermitted.__name__)


def test_a_folder_or_a_device_is_no_store(tmp_path: Path) -> None:
    for place in (tmp_path, Path("/dev/null")):
        with pytest.raises(StoreUnavailable):
            open_store(f"sqlite:///{place}")


@pytest.mark.parametrize("address", ["", "sqlite://", "sqlite:///", "mysql://u:hunter2x@h/d", "store.db", "memory"])
def test_an_address_that_means_nothing_is_refused_without_showing_its_password(address: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        open_store(address)
    assert "hunter2x" not in str(error.value)


WRITER = """
import sys
from instar.memstore import open_store, Principal, PageDraft, PageType
with open_store(f"sqlite:///{sys.argv[1]}") as store:
    for n in range(20):
        with store.writeback(Principal("w", ("local",)), scope="local") as batch:
            batch.append(PageDraft(kind="step", type=PageType.EVIDENCE, content={"who": sys.argv[2], "n": n}))
"""


def test_several_processes_open_a_new_file_and_write_at_once(path: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(n)]) for n in range(3)]
    assert [writer.wait() for writer in writers] == [0] * 3
    with open_store(f"sqlite:///{path}") as store:
        assert store.count(ALICE, scope="local") == 60
        assert store.check() == []


def test_threads_that_increment_lose_no_update(path: Path) -> None:
    lost: list[int] = []
    with open_store(f"sqlite:///{path}") as store:
        write(store, PageDraft(kind="counter", type=PageType.PLAN, id="c", content={"n": 0}))

        def increment() -> None:
            refused = 0
            for _ in range(25):
                while True:
                    page = store.get(ALICE, "c")
                    assert page is not None
                    count = page.content["n"]
                    assert isinstance(count, int)
                    try:
                        with store.writeback(ALICE, scope=DESK) as batch:
                            batch.replace("c", {"n": count + 1}, expect=page.version)
                        break
                    except Rejected:
                        refused += 1
            lost.append(refused)

        threads = [threading.Thread(target=increment) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        page = store.get(ALICE, "c")
        assert page is not None
        assert (page.content["n"], page.version, len(lost)) == (100, 101, 4)


def test_an_erased_page_leaves_no_bytes_in_the_file(path: Path) -> None:
    with open_store(f"sqlite:///{path}") as store:
        write(store, step(id="p", text="unspeakable " * 50), step(id="q"))
        store.maintenance(ALICE).erase(["p"], reason="asked for")
    assert b"unspeakable" not in b"".join(file.read_bytes() for file in path.parent.iterdir())


SECOND, THIRD = ("TABLE staged", "TABLE traces", "TABLE outbox", "TABLE cursors"), ("INDEX pages_standing",)
"""What the second and the third version of the schema brought."""


@pytest.mark.parametrize("version", [1, 2])
def test_a_file_of_an_older_version_is_brought_up_with_its_pages(path: Path, version: int) -> None:
    filled(path)
    other = sqlite3.connect(path)
    for thing in (*SECOND, *THIRD)[0 if version == 1 else len(SECOND) :]:
        other.execute(f"DROP {thing}")
    other.execute("UPDATE store_meta SET value = ? WHERE name = 'schema_version'", (str(version),))
    other.commit()
    other.close()
    with open_store(f"sqlite:///{path}") as store:
        assert store.count(ALICE, scope="local") == 3
        assert [row.page_id for row in store.outbox()] == ["p0", "p1", "p2"]
        assert write(store, step(id="new")).committed == {"new": 1}
        assert store.check() == []


def test_what_a_session_begins_with_is_found_without_looking_at_other_pages(path: Path) -> None:
    with open_store(f"sqlite:///{path}") as store, store._backend.read() as view:
        seen: list[tuple[str, tuple[object, ...]]] = []
        engine = store._backend._engine  # type: ignore[attr-defined]
        event.listen(engine, "before_cursor_execute", lambda *given: seen.append((given[2], given[3])))
        for kind in (PageType.BOOTSTRAP, PageType.CONSTRAINT, PageType.PLAN, PageType.PREFERENCE):
            view.scan(Query(DESK, ("local",), type=kind, exact=True, limit=500))
        driver = view.driver  # type: ignore[attr-defined]
        plans = [driver.execute(f"EXPLAIN QUERY PLAN {sql}", given).fetchone()[3] for sql, given in seen]
    assert len(plans) == 4
    assert set(plans) == {"SEARCH pages USING INDEX pages_standing (scope=? AND type=?)"}


def test_a_reader_is_not_held_up_by_a_writer(path: Path) -> None:
    with open_store(f"sqlite:///{path}", busy_timeout=0.1) as store:
        write(store, step(id="p"))
        assert store._backend.write(lambda _: store.get(ALICE, "p")) is not None
