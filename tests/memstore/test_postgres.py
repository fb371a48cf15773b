"""PostgreSQL with many writers: no update is lost, no line is missed, every bad day has a name."""

import threading
from collections.abc import Callable

import pytest
from sqlalchemy import create_engine, text

from instar.memstore import (
    InvalidRequest,
    PageDraft,
    PageType,
    Receipt,
    StaleWrite,
    Store,
    StoreCorrupted,
    StoreLocked,
    StoreNotPermitted,
    StoreTooNew,
    StoreUnavailable,
    open_store,
)
from instar.memstore.testing import ALICE, DESK, step, write


def at_once(*work: Callable[[], None]) -> None:
    """Run in threads; the first error is raised here."""
    errors: list[BaseException] = []

    def guarded(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:  # noqa: BLE001  (raised again below)
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(job,)) for job in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def execute(address: str, *statements: str) -> None:
    engine = create_engine(address)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


def test_writers_that_increment_lose_no_update(postgres: str) -> None:
    refused: list[int] = []

    def increment(store: Store) -> None:
        for _ in range(15):
            while True:
                page = store.get_many(ALICE, ["c"])["c"]
                count = page.content["n"]
                assert isinstance(count, int)
                try:
                    with store.writeback(ALICE, scope=DESK) as batch:
                        batch.replace("c", {"n": count + 1}, expect=page.version)
                    break
                except StaleWrite:
                    refused.append(count)

    with open_store(postgres) as store, open_store(postgres) as other:
        write(store, PageDraft(kind="counter", type=PageType.PLAN, id="c", content={"n": 0}))
        at_once(*[lambda at=at: increment(at) for at in (store, store, other, other)])
        page = store.get_many(ALICE, ["c"])["c"]
        assert (page.content["n"], page.version) == (60, 61)
        assert store.check() == []


def test_the_same_batch_from_many_writers_is_committed_once(postgres: str) -> None:
    receipts: list[Receipt] = []
    with open_store(postgres) as store:
        drafts = [step(content={"n": n}) for n in range(5)]
        at_once(*[lambda: receipts.append(write(store, *drafts, key="once")) for _ in range(6)])
        assert sorted(receipt.duplicate for receipt in receipts) == [False] + [True] * 5
        assert len({tuple(receipt.committed.items()) for receipt in receipts}) == 1
        assert store.count(ALICE, scope="local") == 5


def test_a_reader_who_remembers_the_last_number_misses_nothing(postgres: str) -> None:
    seen: list[str] = []
    lines: list[str] = []
    stop = threading.Event()

    with open_store(postgres) as store:

        def follow() -> None:
            at, line = 0, 0
            while True:
                ended = stop.is_set()
                for row in store.outbox(since=at):
                    seen.append(row.page_id)
                    at = row.seq
                for entry in store.journal(ALICE, since=line):
                    lines.append(entry.page_id)
                    line = entry.seq
                if ended:
                    return

        def produce(name: str) -> None:
            for n in range(25):
                write(store, step(id=f"{name}-{n}"), step(id=f"{name}-{n}b"))

        reader = threading.Thread(target=follow)
        reader.start()
        at_once(*[lambda name=name: produce(name) for name in ("a", "b", "c", "d")])
        stop.set()
        reader.join()
    assert len(seen) == len(set(seen)) == 200
    assert sorted(lines) == sorted(seen)


def test_a_database_from_a_newer_version_is_refused(postgres: str) -> None:
    open_store(postgres).close()
    execute(postgres, "UPDATE store_meta SET value = '999' WHERE name = 'schema_version'")
    try:
        with pytest.raises(StoreTooNew):
            open_store(postgres)
    finally:
        execute(postgres, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")


def test_a_database_of_something_else_is_refused_and_left_alone(postgres: str) -> None:
    execute(postgres, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public", "CREATE TABLE things (name TEXT)")
    try:
        with pytest.raises(StoreCorrupted):
            open_store(postgres)
        execute(postgres, "SELECT * FROM things")
    finally:
        execute(postgres, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")


def test_a_role_that_may_only_read_is_named_and_reads(postgres: str) -> None:
    with open_store(postgres) as store:
        write(store, step(id="p"))
    execute(
        postgres,
        "DROP OWNED BY reader; DROP ROLE reader" if role_exists(postgres) else "SELECT 1",
        "CREATE ROLE reader LOGIN",
        "GRANT USAGE ON SCHEMA public TO reader",
        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader",
    )
    with open_store(postgres.replace("//postgres:", "//reader:")) as store:
        assert store.get(ALICE, "p") is not None
        with pytest.raises(StoreNotPermitted):
            write(store, step(id="q"))


def role_exists(address: str) -> bool:
    engine = create_engine(address)
    with engine.begin() as connection:
        found = connection.scalar(text("SELECT 1 FROM pg_roles WHERE rolname = 'reader'"))
    engine.dispose()
    return found is not None


def test_a_lock_held_over_the_time_out_is_named(postgres: str) -> None:
    with open_store(postgres, busy_timeout=0.2) as store:
        write(store, step(id="p"))
        engine = create_engine(postgres)
        with engine.connect() as other:
            other.execute(text("LOCK TABLE pages IN ACCESS EXCLUSIVE MODE"))
            with pytest.raises(StoreLocked):
                write(store, step(id="q"))
        engine.dispose()
        assert write(store, step(id="q")).committed == {"q": 1}


def test_a_server_that_is_not_there_is_named_without_the_password() -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    with pytest.raises(StoreUnavailable) as error:
        open_store("postgresql+psycopg://u:hunter2x@127.0.0.1:1/none")
    assert "127.0.0.1" in str(error.value)
    assert "hunter2x" not in str(error.value)


def test_connections_that_the_server_ended_are_made_anew_without_an_error(postgres: str) -> None:
    with open_store(postgres) as store:
        at_once(*[lambda n=n: write(store, step(id=f"before-{n}")) for n in range(3)])  # several wait in the pool
        execute(postgres, END_ALL)
        assert write(store, step(id="after")).committed == {"after": 1}
        execute(postgres, END_ALL)
        assert store.get(ALICE, "after") is not None
        execute(postgres, END_ALL)
        assert len(list(store.journal(ALICE))) == 4


END_ALL = (
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
    "WHERE pid <> pg_backend_pid() AND usename = 'postgres' AND backend_type = 'client backend'"
)
"""What a restart of the server does to the connections of its clients."""


def test_an_address_that_is_none_is_refused() -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    with pytest.raises(InvalidRequest):
        open_store("postgresql+psycopg://h:notaport/d")
