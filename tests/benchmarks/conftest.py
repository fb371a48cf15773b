"""A benchmark of the tests' own, in a process of its own: what it prints is then really on stdout or stderr."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run_frame(tmp_path: Path) -> Run:
    """Run the frame on a registry: `run_frame({"tiny": source}, "tiny", "--json")`."""

    def run(sources: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
        for name, source in sources.items():
            (tmp_path / f"bench_{name}.py").write_text(source, encoding="utf-8")
        known = {name: f"bench_{name}" for name in sources}
        script = f"import sys; from benchmarks.__main__ import main; sys.exit(main({list(arguments)!r}, {known!r}))"
        return subprocess.run(
            [sys.executable, "-c", script],
            cwd=CHECKOUT,
            env={**os.environ, "PYTHONPATH": f"{CHECKOUT}{os.pathsep}{tmp_path}"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run


@pytest.fixture
def tiny() -> str:
    """The source of a benchmark that counts."""
    return (Path(__file__).parent / "tiny_benchmark.py").read_text(encoding="utf-8")
