"""The window of a night: what changed since the last successful one, whatever happened in between."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from instar.core.errors import NightFailed, NightRunning
from instar.core.events import give_feedback
from instar.core.ingest import ingest
from instar.core.learn import distill, reflect
from instar.core.night import MAX_ATTEMPTS, Night, NightState, close_night, nights, open_night, window_of
from instar.core.runtime import Runtime

Write = Callable[..., Path]
NOW = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)


def chat(key: str, words: str = "hello") -> str:
    return json.dumps({"id": key, "task": key, "project": "desk", "messages": [{"role": "user", "content": words}]})


def spend(rt: Runtime, state: NightState = NightState.DONE, now: datetime = NOW) -> Night:
    night = open_night(rt, run="run", now=now)
    changed, through = window_of(rt, night)
    distill(rt)
    reflect(rt)
    return close_night(
        rt, night.model_copy(update={"state": state, "through": through, "sessions": len(changed)}), now=now
    )


def test_each_session_belongs_to_exactly_one_successful_night(empty: Runtime, write_sessions: Write) -> None:
    seen = []
    for number in range(3):
        ingest(empty, [write_sessions(chat(f"a{number}"), chat(f"b{number}"))])
        seen.append(spend(empty).sessions)
    assert seen == [2, 2, 2]
    assert spend(empty).sessions == 0


def test_a_failed_night_leaves_its_sessions_to_the_next(empty: Runtime, write_sessions: Write) -> None:
    ingest(empty, [write_sessions(chat("a"))])
    spend(empty, NightState.FAILED)
    ingest(empty, [write_sessions(chat("b"))])
    night = spend(empty)
    assert (night.number, night.sessions) == (2, 2)


def test_a_night_that_was_cut_off_is_continued_under_its_number(empty: Runtime, write_sessions: Write) -> None:
    ingest(empty, [write_sessions(chat("a"))])
    cut_off = open_night(empty, run="first", now=NOW)
    distill(empty)
    night = open_night(empty, run="second", now=NOW)
    assert (night.id, night.number, night.attempts, night.run) == (cut_off.id, 1, 2, "second")
    assert len(window_of(empty, night)[0]) == 1


def test_a_night_that_is_cut_off_again_and_again_is_given_up_with_its_reason(empty: Runtime) -> None:
    for number in range(MAX_ATTEMPTS):
        open_night(empty, run=f"run-{number}", now=NOW)
    with pytest.raises(NightFailed, match="cut off 5 times"):
        open_night(empty, run="last", now=NOW)
    last = next(nights(empty))
    assert (last.state, last.number) == (NightState.FAILED, 1)
    assert open_night(empty, run="next", now=NOW).number == 2


@pytest.mark.parametrize("jump", [timedelta(hours=-3), timedelta(hours=1), timedelta(days=-400)])
def test_a_clock_that_jumps_leaves_nothing_out_and_counts_nothing_twice(
    empty: Runtime, write_sessions: Write, jump: timedelta
) -> None:
    ingest(empty, [write_sessions(chat("a"))])
    assert spend(empty, now=NOW).sessions == 1
    ingest(empty, [write_sessions(chat("b"))])
    assert spend(empty, now=NOW + jump).sessions == 1
    assert spend(empty, now=NOW).sessions == 0


def test_what_a_night_writes_itself_is_nothing_new_to_the_next(empty: Runtime, write_sessions: Write) -> None:
    ingest(empty, [write_sessions(chat("a"))])
    spend(empty)
    assert window_of(empty, open_night(empty, run="", now=NOW))[0] == set()


def test_a_session_that_grew_and_one_that_was_judged_are_new(empty: Runtime, write_sessions: Write) -> None:
    ingest(empty, [write_sessions(chat("a"), chat("b"), chat("c"))])
    spend(empty)
    ingest(empty, [write_sessions(chat("a", "other words"))])
    give_feedback(empty, "b", good=True)
    assert spend(empty).sessions == 2


def test_sessions_of_another_scope_are_not_of_this_night(empty: Runtime, write_sessions: Write) -> None:
    other = Runtime(empty.settings.model_copy(update={"scope": "elsewhere"}), empty.store)
    ingest(other, [write_sessions(chat("a"))])
    assert spend(empty).sessions == 0
    assert spend(other).sessions == 1


def test_a_run_that_was_overtaken_cannot_close_the_night(empty: Runtime) -> None:
    overtaken = open_night(empty, run="one", now=NOW)
    night = open_night(empty, run="two", now=NOW)
    with pytest.raises(NightRunning):
        close_night(empty, overtaken.model_copy(update={"state": NightState.QUIET}), now=NOW)
    assert close_night(empty, night.model_copy(update={"state": NightState.QUIET}), now=NOW).finished
