"""What Prefect costs and what it keeps: overhead, reaction times, a large night, nights in which things are killed.

`overhead` is the wall time of the flow over that of the plain verbs on the same sessions, the fastest of some runs
each, in alternation. `event_to_start` is from keeping an event until its reflection runs, `resume_to_published`
from a reviewer's answer in the UI until the skill is published; both include the start of a process by the worker.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from pydantic import JsonValue

from benchmarks.errors import ChildFailed
from benchmarks.flows_home import Home, until
from benchmarks.flows_soak import SEED, soak
from benchmarks.result import Bar, Result, progress
from examples.order_desk.record import sessions
from instar.core.events import EventName, tell
from instar.core.reviews import get_review
from instar.core.runtime import runtime
from instar.flows.server import Server

DESCRIPTION = "overhead of the flow, reaction times, a night of 10,000 sessions, nights in which something is killed"
BARS: dict[str, Bar] = {
    "overhead.1000.ratio": Bar(1.15, "at most"),
    "event_to_start.median_s": Bar(5, "at most"),
    "night10k.minutes": Bar(15, "at most"),
    "soak.nights": Bar(20, "at least"),
    "soak.differences": Bar(0, "equals"),
}
SIZES = {10: 3, 100: 3, 1_000: 2}
"""Sessions, and how often they are measured."""
REPEATS = 7
LIMIT = 3_600
INSTAR = str(Path(sys.executable).with_name("instar"))
Parameters = dict[str, JsonValue]


def run(quick: bool) -> Result:
    """Measure everything; quickly: at small sizes, which say nothing about the bars."""
    results: dict[str, float] = {}
    detail: dict[str, object] = {}
    with tempfile.TemporaryDirectory(prefix="instar-flows-") as folder:
        place = Path(folder)
        for size, repeats in {10: 1}.items() if quick else SIZES.items():
            progress(f"overhead with {size} sessions")
            ratio, told = overhead(place / f"overhead-{size}", size, repeats)
            results[f"overhead.{size}.ratio"], detail[f"overhead.{size}"] = ratio, told
        progress("reaction times")
        starts, published = reactions(place / "reactions", 2 if quick else REPEATS)
        results["event_to_start.median_s"] = round(statistics.median(starts), 2)
        results["resume_to_published.median_s"] = round(statistics.median(published), 2)
        detail |= {"event_to_start": starts, "resume_to_published": published}
        size = 100 if quick else 10_000
        progress(f"a night of {size} sessions")
        minutes, told = large_night(place / "large", size)
        results["night10k.minutes"], detail["night10k"] = minutes, told
        progress("nights in which something is killed")
        soaked = soak(place / "soak", 2 if quick else 20)
        results |= {"soak.nights": soaked.nights, "soak.differences": len(soaked.differences)}
        detail["soak"] = {
            "killed": soaked.killed,
            "attempts": soaked.attempts,
            "differences": soaked.differences[:100],
            "seed": SEED,
        }
    return Result(results, detail)


def overhead(place: Path, size: int, repeats: int) -> tuple[float, dict[str, object]]:
    """The flow over the plain verbs."""
    place.mkdir(parents=True)
    log = _generate(place / "sessions.jsonl", size)
    seconds: dict[str, list[float]] = {"plain": [], "flow": []}
    for number in range(repeats):
        for how, taken in seconds.items():
            home = place / f"{how}-{number}"
            home.mkdir()
            arguments = [how, str(home), str(log)]
            if how == "flow":
                arguments.append(Server(home).start().address)
            try:
                told = _child([sys.executable, "-m", "benchmarks.flows_child", *arguments])
            finally:
                Server(home).stop()
            taken.append(float(str(told["seconds"])))
    ratio = min(seconds["flow"]) / min(seconds["plain"])
    return round(ratio, 3), {how: [round(each, 3) for each in all_] for how, all_ in seconds.items()}


def reactions(place: Path, repeats: int) -> tuple[list[float], list[float]]:
    """Seconds from an event to its reflection, and from an answer to the published skill."""
    home = Home(place, proposals=5)
    home.up()
    try:
        _generate(home.logs / "sessions.jsonl", 60)
        night = home.ask("nightly")
        until(lambda: home.run(night).get("state_type") == "COMPLETED", "the night ends")
        until(lambda: not _busy(home), "the reflections on its failures end")
        starts = [_event_to_start(home, number) for number in range(repeats)]
        last = home.last_night()
        asked = {} if last is None else last.asked
        published = [_resume_to_published(home, review, page) for review, page in asked.items()]
    finally:
        home.down()
    return starts, published


def large_night(place: Path, size: int) -> tuple[float, dict[str, object]]:
    """Minutes that `instar night` takes for so many distinct sessions, with the server's start."""
    home = Home(place)
    _generate(home.logs / "sessions.jsonl", size)
    began = time.perf_counter()
    try:
        told = _child([INSTAR, "--home", str(home.path), "night", "--json"], project=home.path)
    finally:
        home.down()
    minutes = (time.perf_counter() - began) / 60
    return round(minutes, 2), {name: told[name] for name in ("sessions", "proposals", "drafts", "not_built")}


def _event_to_start(home: Home, number: int) -> float:
    before = {run["id"] for run in home.runs("reflect-on-failure")}
    with runtime(home.settings) as rt:
        (page,) = rt.store.find(rt.principal, scope="local", kind="session", limit=1)
        told = datetime.now(UTC)
        tell(rt, EventName.FAILED, agent=f"agent {number}", cause="tool", session=page.id)

    def started() -> list[str]:
        new = [run for run in home.runs("reflect-on-failure") if run["id"] not in before]
        return [str(run["start_time"]) for run in new if run.get("start_time")]

    until(started, "a reflection starts")
    seconds = (datetime.fromisoformat(started()[0]) - told).total_seconds()
    until(lambda: not _busy(home), "the reflection ends")
    return round(seconds, 2)


def _resume_to_published(home: Home, review_id: str, page: str) -> float:
    run = page.rpartition("/")[2]
    until(lambda: home.run(run).get("state_type") == "PAUSED", "the review asks")
    with runtime(home.settings) as rt:
        review = get_review(rt, review_id)
        confirm = review.skill if review.risk == "high" else ""
        answer: Parameters = {"decision": "approve", "reviewer": "ada", "comment": "", "digest": review.digest}
        body: Parameters = {"run_input": answer | ({"confirm": confirm} if confirm else {})}
        began = time.perf_counter()
        home.rest.post(f"/flow_runs/{run}/resume", body)
        until(
            lambda: rt.store.get(rt.principal, f"publication-{review_id}") is not None, "it is published", look=0.02
        )
        return round(time.perf_counter() - began, 2)


def _busy(home: Home) -> bool:
    return any(
        run.get("state_type") in ("SCHEDULED", "PENDING", "RUNNING") for run in home.runs("reflect-on-failure")
    )


def _generate(log: Path, size: int) -> Path:
    with log.open("w", encoding="utf-8") as file:
        for session in islice(sessions(SEED, size), size):
            file.write(json.dumps(session) + "\n")
    return log


def _child(command: list[str], *, project: Path | None = None) -> dict[str, object]:
    environment = os.environ | ({} if project is None else {"INSTAR_PROJECT": str(project)})
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT)
    if done.returncode:
        raise ChildFailed(tuple(command), done.returncode, done.stderr)
    told: dict[str, object] = json.loads(done.stdout)
    return told
