"""`python -m benchmarks NAME [--json] [--quick]`.

Exit codes: 0 measured (a missed bar is a finding, not an error), 1 something could not be measured, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.console import Console

from benchmarks.document import Measured, document, document_of_all, print_table
from benchmarks.errors import BenchmarkError, UnknownBenchmark
from benchmarks.registry import BENCHMARKS, describe, load
from benchmarks.result import progress


def main(arguments: Sequence[str] | None = None, known: Mapping[str, str] = BENCHMARKS) -> int:
    """Run what the arguments name and print it; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure, and print figures, bars and base lines.",
        epilog=f"known benchmarks: {', '.join([*sorted(known), 'all'])}",
    )
    parser.add_argument("name", help="a benchmark, or `all`")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout instead of a table")
    parser.add_argument("--quick", action="store_true", help="a size for development; the figures do not count")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.name == "all":
            return _run_all(known, chosen.quick, chosen.json)
        measured = _measure(chosen.name, known, chosen.quick)
        if chosen.json:
            print(json.dumps(document(measured), ensure_ascii=False, allow_nan=False))
        else:
            print_table(_console(), load(chosen.name, known).DESCRIPTION, measured)
    except UnknownBenchmark as error:
        progress(f"{error}; known are\n{describe(known)}")
        return 2
    except BenchmarkError as error:
        progress(f"error: {error}")
        return 1
    return 0


def _run_all(known: Mapping[str, str], quick: bool, as_json: bool) -> int:
    """One that cannot be measured does not keep the others from being measured, but is never passed over."""
    runs: list[Measured] = []
    failed: dict[str, str] = {}
    for name in sorted(known):
        progress(f"== {name}")
        try:
            runs.append(_measure(name, known, quick))
        except BenchmarkError as error:
            progress(f"error: {error}")
            failed[name] = str(error)
        else:
            if not as_json:
                print_table(_console(), load(name, known).DESCRIPTION, runs[-1])
    if as_json:
        print(json.dumps(document_of_all(runs, failed), ensure_ascii=False, allow_nan=False))
    elif failed:
        progress("not measured: " + ", ".join(failed))
    return 1 if failed else 0


def _measure(name: str, known: Mapping[str, str], quick: bool) -> Measured:
    benchmark = load(name, known)
    with _stdout_to_stderr():
        start = time.perf_counter()
        result = benchmark.run(quick)
        seconds = time.perf_counter() - start
    return Measured(name=name, quick=quick, bars=benchmark.BARS, result=result, seconds=seconds)


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Keep stdout for the document, also from the child processes of a benchmark."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _console() -> Console:
    """A table keeps its figures whole where stdout is a file."""
    return Console() if sys.stdout.isatty() else Console(width=160)


if __name__ == "__main__":
    sys.exit(main())
