"""Run `instar` as a user does, in a process of its own with its own home."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from instar.adapters.cli.main import run as run_here

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "examples" / "order_desk" / "sessions"
TOOLS = ROOT / "examples" / "order_desk" / "tools.toml"
INSTAR = Path(sys.executable).with_name("instar")


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> object:
        return json.loads(self.out)


Run = Callable[..., Ran]


def run_instar(
    home: Path, *arguments: str | Path, prefix: Sequence[str] = (), env: Mapping[str, str] | None = None
) -> Ran:
    done = subprocess.run(
        [*prefix, INSTAR, *map(str, arguments)],
        env={**os.environ, "INSTAR_HOME": str(home), **(env or {})},
        cwd=ROOT,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=300,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process, where nothing hangs on whose process it is; otherwise in one of its own."""

    def run_in(*arguments: str | Path, prefix: Sequence[str] = ()) -> Ran:
        if prefix:
            return run_instar(tmp_path / "home", *arguments, prefix=prefix)
        monkeypatch.setenv("INSTAR_HOME", str(tmp_path / "home"))
        capfd.readouterr()
        code = run_here([str(argument) for argument in arguments])
        return Ran(code, *capfd.readouterr())

    return run_in


@pytest.fixture
def expect_one_line() -> Callable[[Ran, int], str]:
    """A failure as a user should meet it: the exit code, one line on standard error, no traceback."""

    def expect(ran: Ran, code: int) -> str:
        assert ran.code == code, ran
        assert "Traceback" not in ran.err + ran.out
        (line,) = [line for line in ran.err.splitlines() if line.startswith("instar: ")]
        return line

    return expect


@pytest.fixture(scope="session")
def instar() -> Run:
    """Run a command in a given home."""
    return run_instar
