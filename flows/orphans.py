"""Processes that outlived the worker which started them: found by a mark in their environment, and ended.

A pid alone proves nothing, it may belong to something else by now. The mark is set by the worker's starter and
inherited by everything below; the kernel shows it only to the owner of a process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from instar.flows.daemon import POLL
from instar.flows.errors import CannotEnd

MARK = "INSTAR_WORKER_OF"
"""The variable that holds the home; everything that a worker starts has it."""
PATIENCE = 5.0


def end_marked(home: Path) -> int:
    """Kill every process that carries the mark of this home, except this one; returns how many there were.

    For a starter that has made sure that no worker lives.

    Raises:
        CannotEnd: one of them is still there.
    """
    found = marked(home)
    deadline = time.monotonic() + PATIENCE
    left = found
    while left and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(POLL)
        left = marked(home)
    if left:
        raise CannotEnd(left[0], "it was started by a worker of this home and does not end; end it by hand")
    return len(found)


def marked(home: Path) -> list[int]:
    """The living processes with the mark of this home, except this one and those it descends from."""
    wanted = f"{MARK}={home}".encode()
    ours = _ancestry()
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) in ours:
            continue
        try:
            environment = (process / "environ").read_bytes()
        except OSError:  # another user's, or it ended meanwhile
            continue
        if wanted in environment.split(b"\0"):
            found.append(int(process.name))
    return sorted(found)


def _ancestry() -> set[int]:
    """This process and everything above it: a command that a served run starts must not end its own run."""
    pid, seen = os.getpid(), set[int]()
    while pid > 0 and pid not in seen:
        seen.add(pid)
        try:
            status = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            break
        pid = int(status.rpartition(")")[2].split()[1])
    return seen
