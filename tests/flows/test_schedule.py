"""The schedule keeps its promise: one night a day, also where the clock is changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from instar.core.settings import Settings
from instar.flows.deployments import DEPLOYMENTS, every_night
from instar.flows.environment import child_environment

# In a process of its own: Prefect reads its environment when it is imported.
DATES = """
import asyncio, json, sys
from datetime import datetime
from zoneinfo import ZoneInfo
from prefect.server.schemas.schedules import CronSchedule
schedule = CronSchedule(cron=sys.argv[1], timezone=sys.argv[2])
start = datetime.fromisoformat(sys.argv[3]).replace(tzinfo=ZoneInfo(sys.argv[2]))
print(json.dumps([date.isoformat() for date in asyncio.run(schedule.get_dates(4, start))]))
"""


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("2026-03-27T12:00", ["03-28T02:30:00+01:00", "03-29T03:30:00+02:00", "03-30T02:30:00+02:00"]),
        ("2026-10-23T12:00", ["10-24T02:30:00+02:00", "10-25T02:30:00+02:00", "10-26T02:30:00+01:00"]),
    ],
)
def test_there_is_one_night_a_day_where_the_clock_changes(tmp_path: Path, start: str, expected: list[str]) -> None:
    cron = every_night(Settings(home=tmp_path, nightly="30 2 * * *", timezone="Europe/Berlin"))
    assert cron is not None
    done = subprocess.run(
        [sys.executable, "-c", DATES, cron.line, cron.zone, start],
        env=child_environment(tmp_path, None, os.environ),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)[:3] == [f"2026-{date}" for date in expected]


def test_an_empty_schedule_means_never(tmp_path: Path) -> None:
    assert every_night(Settings(home=tmp_path, nightly="")) is None


def test_every_deployment_is_named_once() -> None:
    names = [each.name for each in DEPLOYMENTS]
    assert len(set(names)) == len(names)
    assert {"evolve", "nightly", "reflect-on-failure"} <= set(names)
