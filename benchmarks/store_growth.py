"""How size, ingest, the start of a session and assembly grow with the pages in a store."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from benchmarks.result import progress
from benchmarks.store_commits import BY
from instar.memstore import Harness, Level, PageDraft, PageType, Store, open_store

SIZES = (1_000, 10_000, 100_000, 1_000_000)
SCOPE = "local/desk"
_BATCH = 2_000
_SESSION = 200
"""Pages of one session among the others."""
_OWN = 40
"""Tool calls of the session that is looked at."""
_NOTE = "The parcel {0} left depot {1} in the morning, and the driver reported no delay on the way. "


@dataclass(frozen=True, slots=True)
class Size:
    """A store of so many pages."""

    pages: int
    megabytes: float
    ingest: float
    """Pages per second, of those that were written since the size before."""
    start: float
    """Milliseconds of `session_start` in a session of fixed size."""
    assemble: float
    """Milliseconds of one turn in that session, the median."""


def measure_growth(path: Path, sizes: tuple[int, ...]) -> Iterator[Size]:
    """Fill one file, all of it in one scope, and look at one session at each size."""
    with open_store(f"sqlite:///{path}") as store:
        _work(store)
        written = store.count(BY, scope=SCOPE)
        for size in sizes:
            start, before = time.perf_counter(), written
            while written < size:
                count = min(_BATCH, size - written)
                with store.writeback(BY, scope=SCOPE) as batch:
                    for number in range(written, written + count):
                        batch.append(_page(number))
                written += count
                if written % 100_000 == 0:
                    progress(f"growth: {written} pages")
            seconds = time.perf_counter() - start
            begun, turn = _look(store)
            megabytes = sum(file.stat().st_size for file in path.parent.glob(path.name + "*")) / 1e6
            yield Size(size, megabytes, (written - before) / seconds, begun, turn)


def _page(number: int) -> PageDraft:
    """A page of about 400 bytes of one of many sessions."""
    session = f"session-{number // _SESSION}"
    note = _NOTE.format(number, number % 97) * 3
    content: dict[str, JsonValue] = {
        "tool": "get_parcel",
        "arguments": {"parcel": number},
        "status": "ok",
        "value": note,
    }
    return PageDraft("tool-call", PageType.EVIDENCE, id=f"{session}.{number}", content=content, session=session)


def _work(store: Store) -> None:
    """The session that is looked at."""
    harness = Harness(store, BY, scope=SCOPE, session="mine", budget=8_000)
    harness.session_start()
    harness.remember(PageDraft("rule", PageType.CONSTRAINT, content={"rule": "Never ship to a closed address."}))
    for number in range(_OWN):
        harness.tool_start("get_parcel", {"parcel": number}, call_id=f"c{number}")
        harness.tool_result(f"c{number}", _NOTE.format(number, 7) * 3)
    harness.close()


def _look(store: Store) -> tuple[float, float]:
    starts, turns = [], []
    for _ in range(5):
        harness = Harness(store, BY, scope=SCOPE, session="mine", budget=8_000)
        start = time.perf_counter()
        harness.session_start()
        starts.append(time.perf_counter() - start)
        pages = sorted(harness.assemble().levels)
        for turn in range(20):
            start = time.perf_counter()
            harness.assemble({pages[turn]: Level.FULL})
            turns.append(time.perf_counter() - start)
        harness.close()
    return statistics.median(starts) * 1e3, statistics.median(turns) * 1e3
