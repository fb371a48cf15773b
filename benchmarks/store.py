"""`python -m benchmarks store`: the page store's contract, counted and timed beside others."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.errors import CannotLoad
from benchmarks.result import Bar, Result, format_figure, progress
from benchmarks.store_commits import (
    commits_per_second,
    databases,
    lost_after_kills,
    lost_increments,
    raw_commits_per_second,
)
from benchmarks.store_growth import SIZES, measure_growth
from benchmarks.store_policies import POLICIES
from benchmarks.store_powerloss import lost_after_power_losses, record
from benchmarks.store_recorded import BUDGETS as RECORDED_BUDGETS
from benchmarks.store_recorded import sessions
from benchmarks.store_simulator import Run, simulate
from benchmarks.store_turns import measure_optimum, measure_turns
from benchmarks.store_workloads import BUDGETS, STARVATION, Workload, adversaries, families, tasks

DESCRIPTION = "the page store: faults, optimum, time of a turn, commits, kills, power losses, growth"
BARS = {
    "faults.synthetic": Bar(0, "equals"),
    "faults.real": Bar(0, "equals"),
    "faults.adversarial": Bar(0, "equals"),
    "tasks.completed_share": Bar(1, "equals"),
    "optimum.mean": Bar(0.98, "at least"),
    "optimum.worst": Bar(0.95, "at least"),
    "turn50.speedup": Bar(4, "at least"),
    "turn50.lowest_worth": Bar(1, "at least"),
    "turn10k.speedup": Bar(20, "at least"),
    "turn10k.lowest_worth": Bar(1, "at least"),
    "commit.sqlite.raw_share": Bar(0.6, "at least"),
    "commit.postgres.raw_share": Bar(0.6, "at least"),
    "kills.sqlite.lost": Bar(0, "equals"),
    "kills.postgres.lost": Bar(0, "equals"),
    "powerloss.lost": Bar(0, "equals"),
    "increments.lost": Bar(0, "equals"),
    "growth.assemble_ratio": Bar(1.5, "at most"),
}
_TASKS = 30


def run(quick: bool) -> Result:
    """Everything; `quick` with few seeds, sessions, commits and kills."""
    results: dict[str, float] = {}
    baselines: dict[str, float] = {}
    detail: dict[str, object] = {}
    stages: tuple[Callable[[], None], ...] = (
        lambda: _faults(quick, results, baselines, detail),
        lambda: _turns(quick, results),
        lambda: _database("sqlite", quick, results, detail),
        lambda: _database("postgres", quick, results, detail),
        lambda: _power_losses(quick, results, detail),
        lambda: _growth(quick, results),
    )
    for stage in stages:
        known = set(results)
        stage()
        for key in results.keys() - known:  # all of it takes long: what is known is told at once
            progress(f"  {key} = {format_figure(results[key])}")
    lost = [results.pop(f"increments.{kind}.lost", 0.0) for kind in ("sqlite", "postgres")]
    results["increments.lost"] = sum(lost)
    return Result(results, detail, baselines)


def _faults(quick: bool, results: dict[str, float], baselines: dict[str, float], detail: dict[str, object]) -> None:
    progress("faults: synthetic sessions")
    synthetic = [workload for seed in range(1 if quick else 5) for workload in families(seed)]
    progress("faults: recorded sessions")
    real = sessions(3 if quick else 12)
    hostile = [workload for seed in range(1 if quick else 5) for workload in (*families(seed), *adversaries(seed))]
    trials = tasks(_TASKS)
    table: dict[str, object] = {}
    for name in POLICIES:
        made = _runs(name, synthetic, BUDGETS)
        recorded = _runs(name, real, RECORDED_BUDGETS)
        starved = _runs(name, hostile, (*STARVATION, *BUDGETS[:2]))
        completed = [run.total + run.excused == 0 for run in _runs(name, trials, BUDGETS[:1])]
        figures = {
            "faults.synthetic": float(sum(run.total for run in made)),
            "faults.real": float(sum(run.total for run in recorded)),
            "faults.adversarial": float(sum(run.total for run in starved)),
            "tasks.completed_share": sum(completed) / len(completed),
            "thrash": statistics.mean(run.thrash for run in made),
        }
        table[name] = {
            **figures,
            "faults per configuration": sum(run.total for run in made) / len(made),
            "excused under attack": sum(run.excused for run in starved),
            "feasible turns under attack": sum(run.feasible for run in starved),
            "excused": sum(run.excused for run in (*made, *recorded)),
            "feasible turns": sum(run.feasible for run in (*made, *recorded)),
            "turns": sum(run.turns for run in (*made, *recorded)),
        }
        if name == "contract":
            results.update(figures)
        elif name in ("retrieval_only", "compaction_hybrid"):
            results[f"faults.synthetic.{name}"] = figures["faults.synthetic"]
        if name == "compaction_hybrid":
            baselines.update(figures)
    detail["policies"] = table
    detail["recorded sessions"] = len(real)


def _runs(name: str, workloads: Sequence[Workload], budgets: Sequence[int]) -> list[Run]:
    return [
        simulate(POLICIES[name](budget, workload), workload, budget) for workload in workloads for budget in budgets
    ]


def _turns(quick: bool, results: dict[str, float]) -> None:
    progress("the exact optimum")
    shares = measure_optimum(1 if quick else 3)
    results |= {"optimum.mean": statistics.mean(shares), "optimum.worst": min(shares)}
    for name, count, budget, turns in (("turn50", 50, 2_000, 1_000), ("turn10k", 10_000, 32_000, 40)):
        progress(f"one turn at {count} pages")
        measured = measure_turns(count, budget, turns // 4 if quick else turns)
        results |= {
            f"{name}.speedup": measured.speedup,
            f"{name}.median_us": measured.median,
            f"{name}.p95_us": measured.p95,
            f"{name}.lowest_worth": measured.lowest_worth,
        }


def _database(kind: str, quick: bool, results: dict[str, float], detail: dict[str, object]) -> None:
    each = 40 if quick else 400
    try:
        with databases(kind) as fresh:
            for writers in (1, 8):
                progress(f"{kind}: commits of {writers} writer(s)")
                rounds = [_commits(fresh, writers, each) for _ in range(1 if quick else 5)]
                share = statistics.median(ours / raw for ours, raw in rounds)
                detail[f"commits {kind} {writers} writers"] = [
                    {"ours": ours, "raw": raw, "share": ours / raw} for ours, raw in rounds
                ]
                results[f"commit.{kind}.raw_share"] = min(share, results.get(f"commit.{kind}.raw_share", share))
                results.setdefault(f"commit.{kind}.per_s", statistics.median(ours for ours, _ in rounds))
            progress(f"{kind}: increments of 8 processes")
            results[f"increments.{kind}.lost"] = lost_increments(fresh(), 8, 20 if quick else 2_000)
            progress(f"{kind}: kills")
            results[f"kills.{kind}.lost"] = lost_after_kills(fresh(), 20 if quick else 1_000)
    except CannotLoad as error:
        detail[f"not measured: {kind}"] = str(error)


def _commits(fresh: Callable[[], str], writers: int, each: int) -> tuple[float, float]:
    """Ours and the raw database's, one after the other."""
    template = fresh()
    ours = commits_per_second(template, writers, each)
    # PostgreSQL has one database here: the rows are read from it before it is emptied.
    return ours, raw_commits_per_second(fresh, template, writers, each)


def _growth(quick: bool, results: dict[str, float]) -> None:
    turns: list[float] = []
    with tempfile.TemporaryDirectory(prefix="instar-bench-", dir="/tmp") as folder:
        for size in measure_growth(Path(folder) / "store.db", (500, 2_000) if quick else SIZES):
            progress(f"growth: {size.pages} pages")
            results |= {
                f"growth.{size.pages}.mb": size.megabytes,
                f"growth.{size.pages}.ingest_per_s": size.ingest,
                f"growth.{size.pages}.start_ms": size.start,
                f"growth.{size.pages}.assemble_ms": size.assemble,
            }
            turns.append(size.assemble)
    results["growth.assemble_ratio"] = turns[-1] / turns[0]


def _power_losses(quick: bool, results: dict[str, float], detail: dict[str, object]) -> None:
    progress("sqlite: power losses")
    try:
        # Enough batches that the write-ahead log is folded into the file, and begun again.
        events = record(150)
    except CannotLoad as error:
        detail["not measured: power losses"] = str(error)
    else:
        results["powerloss.lost"] = lost_after_power_losses(events, 50 if quick else 1_000)
