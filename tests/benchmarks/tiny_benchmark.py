"""A benchmark of the tests' own, which counts."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.result import Bar, Result, progress

DESCRIPTION = "counts to a number"
BARS = {
    "count.last": Bar(10, "at least"),
    "count.wrong": Bar(0, "equals"),
    "count.seconds": Bar("peer.seconds", "at most"),
    "count.share": Bar(0.5, "at most"),
    "count.forgotten": Bar(1, "equals"),
}


def run(quick: bool) -> Result:
    progress("counting")
    sys.stdout.write("noise of the benchmark\n")
    subprocess.run(["echo", "noise of a child"], check=True)
    results = {"count.last": 5 if quick else 10, "count.wrong": 0, "count.seconds": 0.25, "count.share": 0.75}
    return Result({**results, "peer.seconds": 0.5}, {"steps": [1, 2]}, {"count.last": 7})
