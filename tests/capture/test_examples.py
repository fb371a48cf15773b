"""Every example runs as a user runs it, and records what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "capture"
EXAMPLES = sorted(path.name for path in FOLDER.glob("*.py") if path.name != "orders.py")


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_runs_and_records(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, FOLDER / name, tmp_path / "home"],
        env={**os.environ, "INSTAR_HOME": str(tmp_path / "home")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    if name == "mcp_client.py":
        assert "Order 7 was sent by train." in done.stdout
        assert "Never ship to a closed address." in done.stdout
    elif name == "otel_agent.py":
        assert "'arguments': {'order': 7}" in done.stdout
    else:
        assert "Order 7 was sent, order 8 is packed." in done.stdout
        assert "get_order {'order': 7} -> {'order': 7, 'state': 'sent'}" in done.stdout
        assert "get_order {'order': 8} -> {'order': 8, 'state': 'packed'}" in done.stdout
    assert "Traceback" not in done.stderr


def test_each_example_is_in_the_table() -> None:
    table = (FOLDER / "README.md").read_text()
    assert [name for name in EXAMPLES if f"`{name}`" not in table] == []
