"""The one document that a run prints, and the table that a person reads instead."""

from __future__ import annotations

import json
import math
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.errors import BadResult
from benchmarks.result import Bar, Result, format_figure

CHECKOUT = Path(__file__).resolve().parents[1]
KEY = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
RESERVED = frozenset({"quick", "seconds", "bars", "baselines"})


@dataclass(frozen=True, slots=True)
class Measured:
    """One finished benchmark: what it was asked, what it returned, how long it took."""

    name: str
    quick: bool
    bars: Mapping[str, Bar]
    result: Result
    seconds: float

    def __post_init__(self) -> None:
        """Refuse what could not be reported truthfully.

        Raises:
            BadResult: a key is not dotted, a value is no finite number, or a detail uses a reserved name.
        """
        for key, value in (*self.result.results.items(), *self.result.baselines.items()):
            if not KEY.fullmatch(key):
                raise BadResult(self.name, f"{key!r} is not a dotted key")
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise BadResult(self.name, f"{key!r} is {value!r}, not a finite number")
        if taken := RESERVED & set(self.result.detail):
            raise BadResult(self.name, f"the frame itself writes the detail {', '.join(sorted(taken))}")
        try:
            json.dumps(dict(self.result.detail), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise BadResult(self.name, f"detail: {error}") from error

    def detail(self) -> dict[str, object]:
        """Everything that is not a figure, with the bars and base lines that belong to the figures."""
        return {
            "quick": self.quick,
            "seconds": round(self.seconds, 3),
            "bars": {key: asdict(bar) for key, bar in self.bars.items()},
            "baselines": dict(self.result.baselines),
            **self.result.detail,
        }


def document(measured: Measured) -> dict[str, object]:
    """The document of one benchmark."""
    return {
        "benchmark": measured.name,
        "commit": commit(),
        "machine": machine(),
        "results": dict(measured.result.results),
        "detail": measured.detail(),
    }


def document_of_all(runs: list[Measured], failed: Mapping[str, str]) -> dict[str, object]:
    """The document of `all`: keys and details carry the name of their benchmark; `failed` says what is missing."""
    return {
        "benchmark": "all",
        "commit": commit(),
        "machine": machine(),
        "results": {f"{run.name}.{key}": value for run in runs for key, value in run.result.results.items()},
        "detail": {**{run.name: run.detail() for run in runs}, "failed": dict(failed)},
    }


def print_table(console: Console, description: str, measured: Measured) -> None:
    """Show every figure and every bar, also a bar whose figure was not measured."""
    size = "quick, not the size of the figures" if measured.quick else "full size"
    table = Table(title=f"{measured.name}: {description} ({size}, {measured.seconds:.0f} s)", title_justify="left")
    table.add_column("figure")
    for name in ("measured", "bar", "", "base line"):
        table.add_column(name, justify="right")
    results = measured.result.results
    for key in [*results, *(key for key in measured.bars if key not in results)]:
        bar, baseline = measured.bars.get(key), measured.result.baselines.get(key)
        met = bar.met(results[key], results) if bar and key in results else None
        table.add_row(
            key,
            format_figure(results[key]) if key in results else "not measured",
            str(bar) if bar else "",
            "" if met is None else ("met" if met else "[bold]missed[/bold]"),
            "" if baseline is None else format_figure(baseline),
        )
    console.print(table)


def commit() -> str:
    """The commit that was measured, with `-dirty` where tracked files differ from it; "unknown" without Git."""
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--abbrev=40", "--dirty", "--match="],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return "unknown"
    return described.stdout.strip() or "unknown"


def machine() -> dict[str, object]:
    """What the figures were measured on."""
    return {
        "cores": len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count(),
        "memory_mb": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1_000_000,
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
    }
