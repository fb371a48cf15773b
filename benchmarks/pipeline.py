"""The whole chain on distinct generated sessions: time and peak memory of each stage.

Each stage runs in a process of its own on the same home, so that its peak memory is its own. The base line of
`ingest` is what a script would do instead: parse each line and put each step into SQLite, in one transaction,
unredacted, unversioned and without a journal.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

from benchmarks.memory import ChildRun, measure_memory
from benchmarks.result import Bar, Result, progress
from examples.order_desk.record import sessions

DESCRIPTION = "time and peak memory of each stage, from sessions to tested drafts, for 10, 100 and 1,000 sessions"
SIZES = (10, 100, 1_000)
SEED = 20
STAGES = ("ingest", "distill", "reflect", "build")
BARS: dict[str, Bar] = {}


def run(quick: bool) -> Result:
    """Measure every stage at every size."""
    results: dict[str, float] = {}
    baselines: dict[str, float] = {}
    detail: dict[str, object] = {"seed": SEED}
    for size in SIZES[:2] if quick else SIZES:
        with tempfile.TemporaryDirectory() as place:
            log = Path(place) / "sessions.jsonl"
            steps = _generate(log, size)
            for stage in STAGES:
                progress(f"{size} sessions: {stage}")
                child = _stage(stage, Path(place) / "home", log)
                told = json.loads(child.stdout)
                results[f"{stage}.{size}.seconds"] = round(told["seconds"], 4)
                results[f"{stage}.{size}.peak_mb"] = round(child.peak_bytes / 1e6, 1)
                detail[f"{stage}.{size}"] = told["counts"]
            results[f"total.{size}.seconds"] = round(sum(results[f"{stage}.{size}.seconds"] for stage in STAGES), 4)
            baselines[f"ingest.{size}.seconds"] = round(_naive_ingest(log, Path(place) / "naive.db"), 4)
            detail[f"input.{size}"] = {"megabytes": round(log.stat().st_size / 1e6, 2), "messages": steps}
    return Result(results, detail, baselines)


def _generate(log: Path, size: int) -> int:
    steps = 0
    with log.open("w", encoding="utf-8") as file:
        for session in islice(sessions(SEED, size), size):
            messages = session["messages"]
            steps += len(messages) if isinstance(messages, list) else 0
            file.write(json.dumps(session) + "\n")
    return steps


def _stage(stage: str, home: Path, log: Path) -> ChildRun:
    return measure_memory([sys.executable, "-m", "benchmarks.pipeline_stage", stage, str(home), str(log)])


def _naive_ingest(log: Path, database: Path) -> float:
    began = time.perf_counter()
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE step (session TEXT, number INTEGER, content TEXT)")
        with log.open(encoding="utf-8") as file:
            for line in file:
                session = json.loads(line)
                rows = [(session["id"], n, json.dumps(step)) for n, step in enumerate(session["messages"])]
                connection.executemany("INSERT INTO step VALUES (?, ?, ?)", rows)
    connection.close()
    return time.perf_counter() - began
