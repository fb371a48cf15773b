"""`instar status` says what a person should look at, and nothing on a good day."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from instar.core.events import EventName, tell
from instar.core.ingest import ingest
from instar.core.night import NightState, close_night, open_night
from instar.core.runtime import Runtime, runtime
from instar.core.settings import Settings, Source
from instar.flows.status import overview

NOW = datetime.now(UTC)


@pytest.fixture
def rt(tmp_path: Path) -> Iterator[Runtime]:
    sources = (Source(paths=(str(tmp_path / "logs"),)),)
    with runtime(Settings(home=tmp_path / "home", sources=sources, silence_hours=48)) as opened:
        yield opened


def read_one(rt: Runtime, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"id": "a", "project": "desk", "messages": [{"role": "user", "content": "hello"}]}))
    ingest(rt, [log])


def test_nothing_runs_and_nothing_is_wrong_in_a_home_that_was_just_used(rt: Runtime, tmp_path: Path) -> None:
    read_one(rt, tmp_path)
    seen = overview(rt)
    assert (seen.state, seen.worker, seen.runs, seen.server) == ("stopped", "stopped", False, None)
    assert (seen.alarms, seen.last_night, seen.next_night) == ([], None, "")


@pytest.mark.parametrize(("hours", "alarm"), [(47, False), (49, True)])
def test_an_alarm_tells_that_no_session_has_arrived(rt: Runtime, tmp_path: Path, hours: int, alarm: bool) -> None:
    read_one(rt, tmp_path)
    alarms = overview(rt, NOW + timedelta(hours=hours)).alarms
    assert [each.startswith("No session has arrived for 49 hours") for each in alarms] == [True] * alarm


def test_sources_that_never_gave_a_session_are_an_alarm(rt: Runtime) -> None:
    (alarm,) = overview(rt).alarms
    assert "No session has arrived yet" in alarm


def test_a_failed_night_is_an_alarm_with_its_reason(rt: Runtime, tmp_path: Path) -> None:
    read_one(rt, tmp_path)
    night = open_night(rt, run="run", now=NOW)
    close_night(
        rt, night.model_copy(update={"state": NightState.FAILED, "reason": "no sandbox on this machine"}), now=NOW
    )
    seen = overview(rt)
    assert seen.alarms == ["Night 1 failed: no sandbox on this machine"]
    assert seen.last_night is not None
    assert (seen.last_night.number, seen.last_night.state) == (1, "failed")


def test_a_night_that_runs_is_no_alarm_and_one_that_was_cut_off_is(rt: Runtime, tmp_path: Path) -> None:
    read_one(rt, tmp_path)
    open_night(rt, run="one", now=NOW)
    assert overview(rt).alarms == []
    open_night(rt, run="two", now=NOW)
    assert overview(rt).alarms == ["Night 1 was cut off 1 times and is not finished"]


def test_failures_that_wait_are_counted(rt: Runtime, tmp_path: Path) -> None:
    read_one(rt, tmp_path)
    tell(rt, EventName.FAILED, agent="a", cause="b")
    assert overview(rt).waiting_events == 1
