"""How much memory a piece of work takes at its peak, measured from outside."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.document import CHECKOUT
from benchmarks.errors import ChildFailed

# A process inherits the peak of whoever started it until it executes its own program, so a child of a large
# benchmark would look large. The launcher is small and does nothing else; its own size (about 10 MB) is the floor.
LAUNCHER = """
import json, os, resource, subprocess, sys
code = subprocess.call(json.loads(sys.argv[2]))
with os.fdopen(int(sys.argv[1]), "w") as report:
    report.write(json.dumps([code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss]))
"""
UNIT = 1 if sys.platform == "darwin" else 1024


@dataclass(frozen=True, slots=True)
class ChildRun:
    """A finished child process: the peak resident set of its largest process, its time, what it printed."""

    peak_bytes: int
    seconds: float
    stdout: str


def measure_memory(
    command: Sequence[str], *, timeout: float = 3600, environment: Mapping[str, str] | None = None
) -> ChildRun:
    """Run `command` in the checkout and return its peak resident set.

    `environment` is added to this process's own. No process of the command outlives the call.

    Raises:
        ChildFailed: it ended with another code than 0, or not within `timeout` seconds.
    """
    read_end, write_end = os.pipe()
    with os.fdopen(read_end) as report:
        start = time.perf_counter()
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", LAUNCHER, str(write_end), json.dumps(list(command))],
            cwd=CHECKOUT,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=(write_end,),
            start_new_session=True,
        )
        os.close(write_end)
        try:
            stdout, stderr = child.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            _end_group(child)
            raise ChildFailed(tuple(command), None, child.communicate()[1]) from None
        finally:
            _end_group(child)
        seconds = time.perf_counter() - start
        answer = report.read()
    if not answer:
        raise ChildFailed(tuple(command), child.returncode, stderr)
    code, peak = json.loads(answer)
    if code != 0:
        raise ChildFailed(tuple(command), code, stderr)
    return ChildRun(peak_bytes=peak * UNIT, seconds=seconds, stdout=stdout)


def _end_group(child: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
