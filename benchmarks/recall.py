"""Recall: does it find the right page, how fast, how fast do pages come in, and does it ever show a wrong one."""

from __future__ import annotations

import json
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks import recall_bfcl, recall_dialogues, recall_postgres, recall_prefetch, recall_scale
from benchmarks.errors import BenchmarkError, DataMissing
from benchmarks.result import Bar, Result, progress
from instar.memstore import PageDraft, PageType, Principal, open_store
from instar.memstore.recall import Recall, open_recall
from instar.memstore.recall.documents import doc_of
from instar.memstore.recall.feed import BATCH
from instar.memstore.scopes import within

DESCRIPTION = "finding pages again: quality, latency at a million pages, rate of coming in, isolation of scopes"
BARS = {
    "bfcl.top5": Bar(0.96, "at least"),
    "bfcl.top10": Bar(0.98, "at least"),
    "dialogue.ratio": Bar(1.1, "at least"),
    "ingest.pages_per_s": Bar(1000, "at least"),
    "ingest.slowdown": Bar(1.25, "at most"),
    "wrong_scope": Bar(0, "equals"),
    **{
        f"latency1m.{store}.{where}.{name}": Bar(bar, "at most")
        for store in ("sqlite", "postgres")
        for where in ("scope", "root")
        for name, bar in (("p50_ms", 30), ("p95_ms", 80))
    },
}
PAGES, QUICK_PAGES = 1_000_000, 5_000
QUERIES, QUICK_QUERIES = 300, 40
WRONG, QUICK_WRONG = 10_000, 300
KEEP = "INSTAR_BENCH_RECALL"
"""A variable that names a folder for the stores. They stay there, and the next run measures latencies without
building them again; the rate that it gives is that of the run that built them."""


def run(quick: bool) -> Result:
    """Measure everything; what the machine lacks is left out and named."""
    missing: list[str] = []
    progress("bfcl")
    results: dict[str, float] = {}
    baselines: dict[str, float] = {}
    try:
        figures, beside = recall_bfcl.measure()
        results |= figures
        baselines |= beside
    except DataMissing as error:
        missing.append(str(error))
    progress("dialogues")
    figures, beside = recall_dialogues.measure()
    results |= figures
    baselines |= beside
    progress("fetching ahead")
    try:
        figures, beside = recall_prefetch.measure()
        results |= figures
        baselines |= beside
    except DataMissing as error:
        missing.append(str(error))
    progress("wrong scope")
    results["wrong_scope"] = wrong_scope(QUICK_WRONG if quick else WRONG)
    pages, queries = (QUICK_PAGES, QUICK_QUERIES) if quick else (PAGES, QUERIES)
    with _folder() as folder:
        results |= sqlite(folder, pages, queries)
        try:
            results |= postgres(folder, pages, queries)
        except BenchmarkError as error:
            missing.append(str(error))
    detail = {
        "pages": pages,
        "roots": recall_scale.ROOTS,
        "scopes": recall_scale.ROOTS * recall_scale.SCOPES_PER_ROOT,
    }
    return Result(results, {**detail, "dialogues": recall_dialogues.__doc__, "missing": missing}, baselines)


@contextmanager
def _folder() -> Iterator[Path]:
    """Where the stores are built: a folder that goes away, or the one named by `KEEP`."""
    if kept := os.environ.get(KEEP):
        folder = Path(kept)
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="recall-", dir="/tmp") as made:  # the path of a socket must be short
        yield Path(made)


def sqlite(folder: Path, pages: int, queries: int) -> dict[str, float]:
    """The rate of coming in, and latencies, with the index in Chroma."""
    progress(f"SQLite and Chroma, {pages:,} pages")
    built = folder / "built.json"
    address, index = f"sqlite:///{folder}/store.db", folder / "index"
    if built.exists():
        marks = json.loads(built.read_text())
    else:
        marks = recall_scale.grow(address, index, pages)
        built.write_text(json.dumps(marks))
    with recall_scale.opened(address, index) as (_, recall):
        recall.catch_up(progress=_every(pages // 20))
        if marks[-1][0] != pages:
            raise BenchmarkError(f"{folder} holds {marks[-1][0]:,} pages, and {pages:,} are wanted; name another")
        half = marks[len(marks) // 2]
        before, behind = half[1] / half[0], (marks[-1][1] - half[1]) / (marks[-1][0] - half[0])
        rate = {"ingest.pages_per_s": marks[-1][0] / marks[-1][1], "ingest.slowdown": behind / before}
        return rate | latencies("sqlite", recall, queries)


def postgres(folder: Path, pages: int, queries: int) -> dict[str, float]:
    """Latencies with pgvector over the same pages, which are copied instead of being written once more."""
    with recall_postgres.serving(folder / "postgres") as address:
        progress(f"PostgreSQL and pgvector, {pages:,} pages")
        recall_postgres.copy_pages(folder / "store.db", address)
        with recall_scale.opened(address, None) as (_, recall):
            recall.catch_up(progress=_every(pages // 20))
            return latencies("postgres", recall, queries)


def _every(step: int) -> Callable[[int], None]:
    def tell(done: int) -> None:
        if done % step < BATCH:
            progress(f"  {done:,} pages indexed")

    return tell


def latencies(name: str, recall: Recall, queries: int) -> dict[str, float]:
    """Inside a scope, and over a root."""
    found: dict[str, float] = {}
    for where, narrow in (("scope", True), ("root", False)):
        median, high = recall_scale.percentiles(recall_scale.latency(recall, narrow=narrow, queries=queries))
        found[f"latency1m.{name}.{where}.p50_ms"] = median
        found[f"latency1m.{name}.{where}.p95_ms"] = high
        progress(f"  in a {where}: {median:.1f} ms, 95 % within {high:.1f} ms")
    return found


def wrong_scope(rounds: int) -> int:
    """How many hits lie out of scope or grant, over random grants and queries, with an index that is wrong.

    Half of the pages are filed under a scope that is not theirs, and pages are archived without the index being told.
    """
    dice = random.Random(30)
    paths = [f"r{a}/p{b}/s{c}" for a in range(3) for b in range(4) for c in range(3)]
    scopes = sorted({"/".join(path.split("/")[:n]) for path in paths for n in (1, 2, 3)})
    everything = Principal("writer", ("r0", "r1", "r2"))
    words = [f"word{n}" for n in range(30)]
    wrong = found = 0
    with (
        open_store("memory:") as store,
        open_recall(store, address="memory:", folder=None) as recall,
    ):
        for path in paths:
            with store.writeback(everything, scope=path) as batch:
                for _ in range(20):
                    text = " ".join(dice.choices(words, k=6))
                    batch.append(PageDraft("note", PageType.CONVERSATION, text=text, session=f"s{dice.randrange(9)}"))
        recall.catch_up()
        pages = list(store.find(everything, scope="r0")) + list(store.find(everything, scope="r1"))
        misfiled = [doc_of(replace(page, scope=dice.choice(paths))) for page in dice.sample(pages, len(pages) // 2)]
        recall.upkeep.words.apply(misfiled, [], 1 << 40)
        for number in range(rounds):
            if number % 100 == 50:
                hidden = [page.id for page in store.find(everything, scope=dice.choice(paths), limit=3)]
                store.maintenance(everything).archive(hidden, reason="benchmark")
            grants = tuple(dice.sample(scopes, dice.randint(1, 3)))
            by = Principal("reader", grants)
            scope = dice.choice(scopes if number % 4 == 0 else [path for path in scopes if by.may(path)])
            answer = recall.search(by, " ".join(dice.choices(words, k=2)), scope=scope)
            shown = [page for hit in answer.hits for page in (hit.page, hit.before, hit.after) if page is not None]
            found += len(shown)
            wrong += sum(not (within(page.scope, scope) and by.may(page.scope)) or page.hidden for page in shown)
    if not found:
        raise BenchmarkError("wrong scope: no search found anything, so nothing was measured")
    return wrong
