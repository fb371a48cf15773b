"""The benchmarks by name."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import cast

from benchmarks.errors import CannotLoad, UnknownBenchmark
from benchmarks.result import Benchmark

BENCHMARKS: dict[str, str] = {
    "capture": "benchmarks.capture",
    "compile": "benchmarks.compile",
    "flows": "benchmarks.flows",
    "llm": "benchmarks.llm",
    "pipeline": "benchmarks.pipeline",
    "recall": "benchmarks.recall",
    "sandbox": "benchmarks.sandbox",
    "store": "benchmarks.store",
}
"""Short name to dotted path of the module."""


def load(name: str, known: Mapping[str, str]) -> Benchmark:
    """Import the module of a benchmark.

    Raises:
        UnknownBenchmark: no benchmark has that name.
        CannotLoad: the module or a library it needs is missing, or it lacks one of the three parts.
    """
    if name not in known:
        raise UnknownBenchmark(name)
    try:
        module = importlib.import_module(known[name])
    except ImportError as error:
        raise CannotLoad(name, str(error)) from error
    missing = [part for part in ("DESCRIPTION", "BARS", "run") if not hasattr(module, part)]
    if missing:
        raise CannotLoad(name, f"{known[name]} has no {', '.join(missing)}")
    return cast(Benchmark, module)


def describe(known: Mapping[str, str]) -> str:
    """List the known benchmarks, one line each; what cannot be loaded says why in its line."""
    lines = []
    for name in sorted(known):
        try:
            says = load(name, known).DESCRIPTION
        except CannotLoad as error:
            says = f"(cannot be loaded: {error.reason})"
        lines.append(f"  {name:<12} {says}")
    return "\n".join([*lines, f"  {'all':<12} every one of them"])
