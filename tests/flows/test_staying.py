"""Staying with what was started, as a service manager wants it."""

from __future__ import annotations

import signal
import subprocess
import sys

STAY = """
import sys
from instar.flows.errors import FlowsError
from instar.flows.staying import stay

def repair():
    print("repair", flush=True)
    raise FlowsError("the disk is full")

sys.exit(stay(repair, lambda: print("end", flush=True), lambda said: print(said, flush=True), check=0.05))
"""


def test_what_ends_is_repaired_until_a_signal_ends_it_all() -> None:
    with subprocess.Popen([sys.executable, "-c", STAY], stdout=subprocess.PIPE, text=True) as staying:
        assert staying.stdout is not None
        lines = [staying.stdout.readline().strip() for _ in range(4)]
        staying.send_signal(signal.SIGTERM)
        rest = staying.stdout.read().split("\n")
    assert lines == ["repair", "the disk is full"] * 2, "a repair that fails is told of and tried again"
    assert rest[-2:] == ["end", ""]
    assert staying.returncode == 0
