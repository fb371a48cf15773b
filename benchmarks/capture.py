"""Capture: what it costs an agent, and what it is worth when the agent's process dies.

`overhead` compares runs of a LangGraph agent with and without everything that Instar adds (handler, wrapper, context
before every decision), in one process, in turns; the model is a function, so that nothing else takes time. `hook`
runs the Claude Code hook as Claude Code does. `resume` kills agents (see `capture_child`) and lets them go on.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.capture_overhead import langgraph_ms, plain_ms
from benchmarks.document import CHECKOUT
from benchmarks.result import Bar, Result, progress
from instar.adapters.capture.testing import ScriptedEndpoint, Turn
from instar.core.runtime import runtime
from instar.core.settings import Settings

DESCRIPTION = "cost of recording an agent, and resuming one that was killed"
BARS = {
    "overhead.median_ms": Bar(2.0, "at most"),
    "hook.median_ms": Bar(60.0, "at most"),
    "resume.repeated_calls": Bar(0, "equals"),
    "resume.faults": Bar(0, "equals"),
    "resume.unread_orders": Bar(0, "equals"),
    "resume.compactions": Bar(2, "at least"),
    "resume.framework_faults": Bar(1, "at least"),
}
ORDERS = 30
MOST_CALLS = 60
"""A model that does not find its end is stopped here."""
KILL_AFTER = 17
HOOK = CHECKOUT / "adapters" / "claude_code" / "hook.py"
_DONE = re.compile(r'"arguments":\{"order":(\d+)\}')
_RESULT = re.compile(r'"?order"?[\'"]?\s*:\s*(\d+)')


def run(quick: bool) -> Result:
    """Measure all three."""
    results: dict[str, float] = {}
    baselines: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="instar-capture-") as folder:
        home = Path(folder)
        progress("overhead")
        overhead, detail = langgraph_ms(home / "overhead", repeats=3 if quick else 9)
        results["overhead.median_ms"] = overhead
        results["overhead.plain_median_ms"] = plain_ms(home / "plain", calls=100 if quick else 400)
        progress("hook")
        results["hook.median_ms"], baselines["hook.median_ms"] = hook_ms(home / "hook", 10 if quick else 40)
        resumed = {}
        for framework in ("langgraph", "agents"):
            for side in ("instar", "own"):
                progress(f"resume: {framework}, {side} memory")
                resumed[f"{framework}.{side}"] = resume(framework, side, home / f"{framework}-{side}")
    ours = [resumed["langgraph.instar"], resumed["agents.instar"]]
    own = [resumed["langgraph.own"], resumed["agents.own"]]
    results["resume.repeated_calls"] = sum(run["repeated"] for run in ours)
    results["resume.faults"] = sum(run["faults"] for run in ours)
    results["resume.unread_orders"] = sum(run["unread"] for run in ours)
    results["resume.compactions"] = min(run["compactions"] for run in ours)
    results["resume.framework_faults"] = sum(run["repeated"] for run in own)
    return Result(results, detail={"overhead": detail, "resume": resumed}, baselines=baselines)


def hook_ms(home: Path, times: int) -> tuple[float, float]:
    """Median of a hook call and of a bare start of the same Python, in turns."""
    payload = json.dumps(
        {
            "session_id": "s1",
            "transcript_path": "/nowhere.jsonl",
            "cwd": "/work/shop",
            "hook_event_name": "PreToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": "ls -l", "description": "List the files"},
            "tool_use_id": "toolu_1",
        }
    ).encode()
    environment = {**os.environ, "INSTAR_HOME": str(home)}
    hooks: list[float] = []
    bare: list[float] = []
    for _ in range(times):
        for command, found in (([sys.executable, "-I", "-S", str(HOOK)], hooks), ([sys.executable, "-c", ""], bare)):
            begin = time.perf_counter()
            subprocess.run(command, input=payload, env=environment, check=True, stdout=subprocess.DEVNULL)
            found.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(hooks), statistics.median(bare)


def resume(framework: str, side: str, home: Path) -> dict[str, Any]:
    """Run an agent, kill it in the middle, and run it again until it is done."""
    order = list(range(1, ORDERS + 1))
    random.Random(7).shuffle(order)

    def answer(messages: Sequence[Mapping[str, Any]]) -> Turn:
        stopped = len(endpoint.requests) > MOST_CALLS
        return Turn("I have lost count.") if stopped else decide(messages, order)

    with ScriptedEndpoint(answer) as endpoint:
        first = _child(framework, side, home, endpoint.url, KILL_AFTER)
        if first.returncode != -signal.SIGKILL:
            raise RuntimeError(f"{framework} {side} was not killed: {first.stderr[-2000:]}")
        asked = len(endpoint.requests)
        second = _child(framework, side, home, endpoint.url, 0)
        if second.returncode != 0:
            raise RuntimeError(f"{framework} {side} did not end: {second.stderr[-2000:]}")
        ended = json.loads(second.stdout.splitlines()[-1])
    calls = Counter((home / "ledger").read_text().split())
    faults = stored_faults(home) if side == "instar" else Counter[str]()
    return {
        "calls": calls.total(),
        "repeated": calls.total() - len(calls),
        "unread": ORDERS - len(calls),
        "faults": sum(count for kind, count in faults.items() if kind != "floor-infeasible"),
        "fault_kinds": dict(faults),
        "compactions": ended["compactions"],
        "asked_before_the_kill": asked,
        "error": ended.get("error", ""),
    }


def stored_faults(home: Path) -> Counter[str]:
    """Faults of the memory contract in a home, by kind."""
    with runtime(Settings(home=home)) as rt:
        return Counter(fault.kind.value for fault in rt.store.faults(rt.principal, scope="local"))


def decide(messages: Sequence[Mapping[str, Any]], order: Sequence[int]) -> Turn:
    """The model: it reads the first order of the list of which it does not see that it was read."""
    seen: set[int] = set()
    for message in messages:
        content = message.get("content")
        text = content if isinstance(content, str) else json.dumps(content)
        if message["role"] == "tool":
            seen |= {int(number) for number in _RESULT.findall(text)}
        elif message["role"] in ("system", "developer"):
            for line in text.splitlines():
                if '"status":"ok"' in line:
                    seen |= {int(number) for number in _DONE.findall(line)}
    left = [number for number in order if number not in seen]
    return Turn(calls=[("read_order", {"order": left[0]})]) if left else Turn("All orders are read.")


def _child(framework: str, side: str, home: Path, url: str, kill_after: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.capture_child", framework, side, "--home", str(home), "--url", url]
    return subprocess.run(
        [*command, "--kill-after", str(kill_after)],
        cwd=CHECKOUT,
        env={**os.environ, "OPENAI_AGENTS_DISABLE_TRACING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
