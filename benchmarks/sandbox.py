"""The sandbox and the gates under attack: escapes, forgeries, policy corpora, start-up, and what jobs leave behind.

Every escape is first tried in a plain process on this machine; one that does not even work there proves nothing and
is not counted. A back end that is not available here is named in the detail, and its figures are missing.
"""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from benchmarks import gates_suite
from benchmarks.result import Bar, Result, progress
from instar.sandbox.bubblewrap import Bubblewrap
from instar.sandbox.errors import SandboxUnavailable
from instar.sandbox.lures import Attempt, Lures, attempts, laid_out
from instar.sandbox.protocol import Job, Limits, Sandbox
from instar.sandbox.traces import traces

DESCRIPTION = "escapes, forgeries, policy corpora, start-up of a job, and what 200 jobs leave behind"
BARS = {
    "escape.attempts": Bar(80, "at least"),
    "escape.bubblewrap.successes": Bar(0, "equals"),
    "escape.docker.successes": Bar(0, "equals"),
    "start.bubblewrap.median_ms": Bar(40, "at most"),
    "start.docker.median_ms": Bar("start.peer_docker.median_ms", "at most"),
    "leaks": Bar(0, "equals"),
    **gates_suite.BARS,
}
STARTS, PEER_STARTS = 30, 5
JOBS, AT_A_TIME = 200, 8
HELLO = Job({}, ("python", "-c", "print('hello')"))
MIXED = (
    HELLO,
    Job({}, ("python", "-c", "import os; os._exit(9)")),
    Job({}, ("python", "-c", "import ctypes; ctypes.string_at(0)")),
    Job({}, ("python", "-c", "while True: print('x' * 4096)")),
    Job({}, ("python", "-c", "import time; time.sleep(60)"), limits=Limits(wall_seconds=0.5)),
)


def run(quick: bool) -> Result:
    """Attack every back end that is available here."""
    results: dict[str, float] = {}
    detail: dict[str, object] = {}
    sandboxes = _available(detail)
    _escapes(sandboxes, quick, results, detail)
    leaks = 0
    for sandbox in sandboxes:
        progress(f"start-up: {sandbox.name}")
        results[f"start.{sandbox.name}.median_ms"] = _start(partial(sandbox.run, HELLO), STARTS)
        progress(f"{JOBS} jobs: {sandbox.name}")
        leaks += _leaks(sandbox, JOBS // 5 if quick else JOBS)
    results["leaks"] = float(leaks)
    if any(sandbox.name == "docker" for sandbox in sandboxes):
        _peer(results, detail)
    for measured in (
        gates_suite.forgery_figures(sandboxes[0], quick),
        gates_suite.policy_figures(quick),
        gates_suite.gates_figures(sandboxes[0], quick),
    ):
        results |= measured[0]
        detail |= measured[1]
    return Result(results, detail)


def _available(detail: dict[str, object]) -> list[Sandbox]:
    """The back ends of this machine. Without bubblewrap there is nothing to measure, so its refusal is passed on."""
    bubblewrap = Bubblewrap()
    found: list[Sandbox] = [bubblewrap]
    detail["isolation.bubblewrap"] = list(bubblewrap.probe().properties)
    docker: Sandbox = importlib.import_module("instar.sandbox.docker").Docker()
    try:
        detail["isolation.docker"] = list(docker.probe().properties)
        found.append(docker)
    except SandboxUnavailable as error:
        detail["isolation.docker"] = str(error)
    return found


def _escapes(sandboxes: list[Sandbox], quick: bool, results: dict[str, float], detail: dict[str, object]) -> None:
    tried = attempts()[::5] if quick else attempts()
    with laid_out() as lures:
        live = []
        for attempt in tried:
            progress(f"escape outside: {attempt}")
            if lures.outside(attempt):
                live.append(attempt)
        results["escape.attempts"] = float(len(live))
        detail["escape.not_live_here"] = [str(attempt) for attempt in tried if attempt not in live]
        for sandbox in sandboxes:
            progress(f"escape inside: {sandbox.name}")
            escaped = [str(attempt) for attempt in tried if _escaped(sandbox, lures, attempt)]
            results[f"escape.{sandbox.name}.successes"] = float(len(escaped))
            detail[f"escape.{sandbox.name}.escaped"] = escaped


def _escaped(sandbox: Sandbox, lures: Lures, attempt: Attempt) -> bool:
    job = Job(lures.files, ("python", "attempt.py", attempt.group, attempt.name), limits=attempt.limits)
    said = sandbox.run(job).stdout
    return b"\nESCAPED\n" in said or any(lures.folder.glob("left.*"))


def _start(once: Callable[[], object], times: int) -> float:
    """Median milliseconds of a whole job, the first one left out."""
    once()
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        once()
        taken.append((time.perf_counter() - begun) * 1000)
    return round(statistics.median(taken), 2)


def _leaks(sandbox: Sandbox, count: int) -> int:
    """What is here after many jobs that was not here when the sandbox was warm."""
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        list(pool.map(sandbox.run, [HELLO] * AT_A_TIME * 2))
        before = traces()
        list(pool.map(sandbox.run, [MIXED[number % len(MIXED)] for number in range(count)]))
        return traces().since(before)


def _peer(results: dict[str, float], detail: dict[str, object]) -> None:
    """The same hello through the peer on the same engine and image, up to its answer; closing is in the detail."""
    try:
        peer = importlib.import_module("llm_sandbox")
    except ImportError:
        detail["start.peer_docker"] = "not measured: llm-sandbox is not installed (pip install llm-sandbox --no-deps)"
        return
    progress("start-up: llm-sandbox")
    image = importlib.import_module("instar.sandbox.image").TAG
    started, closed = [], []
    settings = {"command": "sleep infinity", "user": "root", "network_mode": "none"}
    trouble = importlib.import_module("docker.errors").DockerException
    for _ in range(PEER_STARTS):
        begun = time.perf_counter()
        try:
            with peer.SandboxSession(
                image=image, lang="python", keep_template=True, skip_environment_setup=True, runtime_configs=settings
            ) as session:
                said = session.run("print('hello')").stdout
                started.append((time.perf_counter() - begun) * 1000)
        except trouble as error:
            detail["start.peer_docker"] = f"not measured: {error}"
            return
        closed.append((time.perf_counter() - begun) * 1000 - started[-1])
        if said.strip() != "hello":
            detail["start.peer_docker"] = f"llm-sandbox did not run: {said[:200]}"
            return
    results["start.peer_docker.median_ms"] = round(statistics.median(started), 2)
    detail["start.peer_docker.closing_ms"] = round(statistics.median(closed), 2)
