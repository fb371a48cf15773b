"""A real server and worker: nights that are asked for, cut off and continued; failures that start reflections."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.flows_home import Home, until
from instar.core.events import EventName, tell, waiting
from instar.core.night import NightState
from instar.core.runtime import Runtime, runtime
from instar.flows.status import overview
from instar.flows.worker import Worker

SAMPLES = Path(__file__).parents[2] / "examples" / "order_desk" / "sessions"
ENDED = ("COMPLETED", "FAILED", "CRASHED")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    made = Home(tmp_path_factory.mktemp("orchestration") / "home", proposals=1)
    made.up()
    yield made
    assert made.down() == []


@pytest.fixture
def rt(home: Home) -> Iterator[Runtime]:
    with runtime(home.settings) as opened:
        yield opened


def state(home: Home, run: str) -> str:
    return str(home.run(run).get("state_type"))


def failed(key: str, tool: str = "get_order") -> str:
    call = {"name": tool, "arguments": "{}"}
    return json.dumps(
        {
            "id": key,
            "task": key,
            "project": "desk",
            "outcome": {"reward": 0.0},
            "messages": [
                {"role": "user", "content": f"please do {key}"},
                {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": call}]},
                {"role": "tool", "tool_call_id": "c", "name": tool, "content": json.dumps({"error": "no"})},
            ],
        }
    )


def test_a_night_reads_what_is_new_and_leaves_reviews_and_a_report(home: Home, rt: Runtime) -> None:
    for file in SAMPLES.iterdir():
        (home.logs / file.name).write_bytes(file.read_bytes())
    run = home.ask("nightly")
    until(lambda: state(home, run) in ENDED, "the night ends")
    night = home.last_night()
    assert night is not None
    assert (state(home, run), night.state, night.sessions, night.run) == ("COMPLETED", NightState.DONE, 60, run)
    (draft,) = night.drafts
    report = home.rest.get("/artifacts/night/latest")
    assert isinstance(report, dict)
    assert f"[decide]({night.asked[draft.review]})" in str(report["data"])
    assert night.maintenance is not None
    assert (night.maintenance.trouble, night.maintenance.index_lag) == ([], 0)
    assert night.maintenance.compared > 0
    assert "## Maintenance" in str(report["data"])
    assert overview(rt).pending_reviews == [draft.review]


def test_the_failures_of_a_night_are_reflected_on(home: Home, rt: Runtime) -> None:
    until(lambda: not list(waiting(rt)), "every event is answered")
    reflections = {
        str(page.content["reflection"]) for page in rt.store.find(rt.principal, scope="local", kind="event")
    }
    assert reflections
    assert all(rt.store.get(rt.principal, reflection) is not None for reflection in reflections)


def test_a_night_in_which_nothing_changed_says_so(home: Home) -> None:
    run = home.ask("nightly", at=datetime(2026, 3, 29, 1, 30, tzinfo=UTC).isoformat())
    until(lambda: state(home, run) == "COMPLETED", "the night ends")
    night = home.last_night()
    assert night is not None
    assert (night.state, night.sessions) == (NightState.QUIET, 0)
    assert night.opened_at == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    report = home.rest.get("/artifacts/night/latest")
    assert isinstance(report, dict)
    assert "Quiet" in str(report["data"])


def test_maintenance_that_fails_is_named_in_the_report_and_fails_no_night(home: Home) -> None:
    index = home.path / "index"
    index.rename(home.path / "aside")
    index.write_text("in the way of the folder")
    try:
        run = home.ask("nightly")
        until(lambda: state(home, run) in ENDED, "the night ends")
    finally:
        index.unlink()
        (home.path / "aside").rename(index)
    night = home.last_night()
    assert night is not None
    assert (state(home, run), night.state) == ("COMPLETED", NightState.QUIET)
    assert night.maintenance is not None
    assert "index" in night.maintenance.failed
    report = home.rest.get("/artifacts/night/latest")
    assert isinstance(report, dict)
    assert "**Not done:**" in str(report["data"])


def test_an_event_that_is_told_starts_a_reflection_on_just_its_evidence(home: Home, rt: Runtime) -> None:
    (page,) = rt.store.find(rt.principal, scope="local", kind="session", limit=1)
    before = len(home.runs("reflect-on-failure"))
    told = tell(rt, EventName.FAILED, agent="42", cause="7", session=page.id)
    until(lambda: len(home.runs("reflect-on-failure")) > before, "a run starts, though all looks like numbers")

    def answered() -> object:
        event = rt.store.get(rt.principal, told)
        return event is not None and event.content.get("reflection")

    until(answered, "the event is answered")
    event = rt.store.get(rt.principal, told)
    assert event is not None
    reflection = rt.store.get(rt.principal, str(event.content["reflection"]))
    assert reflection is not None
    assert reflection.content["sessions"] == 1


def test_a_storm_becomes_few_runs_with_all_the_evidence(home: Home, rt: Runtime) -> None:
    before = len(home.runs("reflect-on-failure"))
    (page,) = rt.store.find(rt.principal, scope="local", kind="session", limit=1)
    for number in range(300):
        tell(rt, EventName.STRUGGLED, agent="stormy", cause="tool", session=page.id, note=f"{number}")
    until(lambda: not list(waiting(rt)), "every event is answered")
    assert 1 <= len(home.runs("reflect-on-failure")) - before <= 8
    time.sleep(3)  # longer than the debounce time: nothing starts itself again
    settled = len(home.runs("reflect-on-failure"))
    time.sleep(3)
    assert len(home.runs("reflect-on-failure")) == settled


def test_a_missing_part_is_waited_for_and_then_fails_the_night_with_one_reason(home: Home) -> None:
    before = home.last_night()
    assert before is not None
    (home.logs / "late.jsonl").write_text(failed("late") + "\n")
    missing = {"INSTAR_SANDBOX": "docker", "DOCKER_HOST": "unix:///nowhere", "INSTAR_RETRY_SECONDS": "0.1,0.1"}
    here = {"INSTAR_HOME": str(home.path), "INSTAR_PROJECT": str(home.path)}
    done = subprocess.run(
        [Path(sys.executable).with_name("instar"), "night"],
        env=os.environ | here | missing,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    night = home.last_night()
    assert night is not None
    assert (night.number, night.state, night.attempts) == (before.number + 1, NightState.FAILED, 1)
    assert night.reason.startswith("No sandbox")
    run = home.ask("nightly")
    until(lambda: state(home, run) in ENDED, "the next night ends")
    night = home.last_night()
    assert night is not None
    assert (night.number, night.state, night.sessions) == (before.number + 2, NightState.DONE, 1)


def test_a_night_whose_process_is_killed_is_continued_by_itself(home: Home) -> None:
    before = home.last_night()
    assert before is not None
    (home.logs / "more.jsonl").write_text("\n".join(failed(f"k{number}") for number in range(400)) + "\n")
    run = home.ask("nightly")

    def opened() -> object:
        night = home.last_night()
        return night is not None and night.number == before.number + 1

    until(opened, "the night begins")
    assert home.kill("run", run)

    def finished() -> object:
        night = home.last_night()
        return night is not None and night.number == before.number + 1 and night.finished

    until(finished, "the night is continued")
    night = home.last_night()
    assert night is not None
    assert (night.attempts, night.sessions, night.state) == (2, 400, NightState.DONE)
    assert night.run != run
    until(lambda: state(home, run) == "CRASHED", "the killed run is not shown as running")


def test_a_killed_worker_and_server_are_repaired_by_the_next_up(home: Home, rt: Runtime) -> None:
    assert home.kill("worker", "")
    assert home.kill("server", "")
    until(lambda: Worker(home.path).status().state == "ended", "the worker is gone")
    (alarm,) = overview(rt).alarms
    assert "`instar up`" in alarm
    told = tell(rt, EventName.FAILED, agent="while away", cause="power")
    home.up()
    assert overview(rt).runs
    until(lambda: not list(waiting(rt)), "what was told meanwhile is answered")
    event = rt.store.get(rt.principal, told)
    assert event is not None
    assert "reflection" in event.content
