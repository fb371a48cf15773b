"""Failures are told to Prefect at most once in the debounce time, and until they are answered."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from instar.core.events import EVERYTHING, EventName, Happened
from instar.flows.delivery import MANY, Debounce, deliver, prefect_event
from instar.flows.errors import PrefectRefused
from instar.flows.rest import Rest


def happened(group: str, number: int = 0, name: EventName = EventName.FAILED) -> Happened:
    return Happened(
        id=f"event-{group}-{number}",
        name=name,
        agent=f"agent of {group}",
        cause="tool",
        group=group,
        session=f"session-{number}",
        note="secret words of a session",
        at=datetime(2026, 1, 1, tzinfo=UTC),
        version=1,
    )


class Prefect(BaseHTTPRequestHandler):
    got: list[list[dict[str, object]]]
    answer = 204
    in_work = 0

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        counts = self.path == "/api/flow_runs/count"
        if self.answer == 204 and not counts:
            self.got.append(body)
        self.send_response(200 if counts else self.answer)
        self.end_headers()
        if counts:
            self.wfile.write(str(self.in_work).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 — the name in http.server
        pass


@pytest.fixture
def prefect() -> Iterator[type[Prefect]]:
    class Handler(Prefect):
        got: list[list[dict[str, object]]] = []  # noqa: RUF012 — one class for each test

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        Handler.address = f"http://127.0.0.1:{server.server_port}"  # type: ignore[attr-defined]
        yield Handler
        server.shutdown()
        thread.join()


def rest(prefect: type[Prefect]) -> Rest:
    return Rest(prefect.address)  # type: ignore[attr-defined]


def groups(prefect: type[Prefect]) -> list[list[str]]:
    return [[str(event["resource"]["instar.group"]) for event in batch] for batch in prefect.got]  # type: ignore[index]


def test_a_storm_of_one_cause_is_one_event(prefect: type[Prefect]) -> None:
    storm = [happened("g-a", number) for number in range(1000)]
    assert deliver(rest(prefect), storm, Debounce(60), now=0.0) == 1
    assert prefect.got[0][0]["payload"] == {"events": 1000, "sessions": 1000}


def test_a_storm_of_many_causes_is_one_event_for_them_all(prefect: type[Prefect]) -> None:
    storm = [happened(f"g-{number}") for number in range(MANY + 1)]
    assert deliver(rest(prefect), storm, Debounce(60), now=0.0) == 1
    assert groups(prefect) == [[EVERYTHING]]


def test_what_comes_within_the_debounce_time_is_told_after_it(prefect: type[Prefect]) -> None:
    debounce = Debounce(60)
    deliver(rest(prefect), [happened("g-a")], debounce, now=0.0)
    assert deliver(rest(prefect), [], debounce, now=1.0) == 0  # the first was answered
    assert deliver(rest(prefect), [happened("g-a", 2)], debounce, now=30.0) == 0
    assert deliver(rest(prefect), [happened("g-a", 2)], debounce, now=61.0) == 1


def test_one_cause_that_was_answered_does_not_hold_up_another(prefect: type[Prefect]) -> None:
    debounce = Debounce(60)
    deliver(rest(prefect), [happened("g-a")], debounce, now=0.0)
    assert deliver(rest(prefect), [happened("g-b")], debounce, now=1.0) == 1
    assert groups(prefect) == [["g-a"], ["g-b"]]


def test_what_comes_while_one_is_in_work_comes_together(prefect: type[Prefect]) -> None:
    debounce = Debounce(60)
    first, others = happened("g-a"), [happened(f"g-{number}") for number in range(MANY + 1)]
    deliver(rest(prefect), [first], debounce, now=0.0)
    assert deliver(rest(prefect), [first, others[0]], debounce, now=1.0) == 0
    assert deliver(rest(prefect), others, debounce, now=2.0) == 1
    assert groups(prefect) == [["g-a"], [EVERYTHING]]


def test_a_cause_that_is_never_answered_holds_up_others_for_a_moment_only(prefect: type[Prefect]) -> None:
    debounce, stuck = Debounce(60), happened("g-a")
    deliver(rest(prefect), [stuck], debounce, now=0.0)
    told = [now for now in range(1, 40) if deliver(rest(prefect), [stuck, happened("g-b")], debounce, now=float(now))]
    assert told == [20]


def test_what_is_not_answered_is_told_again_with_growing_pauses(prefect: type[Prefect]) -> None:
    debounce, waiting = Debounce(10), [happened("g-a")]
    told = [now for now in range(400) if deliver(rest(prefect), waiting, debounce, now=float(now))]
    assert told == [0, 10, 30, 70, 150, 310]


def test_what_is_in_work_is_not_told_again_however_long_it_takes(prefect: type[Prefect]) -> None:
    debounce, waiting = Debounce(10), [happened("g-a")]
    deliver(rest(prefect), waiting, debounce, now=0.0)
    prefect.in_work = 1
    assert [deliver(rest(prefect), waiting, debounce, now=float(now)) for now in range(1, 100)] == [0] * 99
    prefect.in_work = 0
    assert sum(deliver(rest(prefect), waiting, debounce, now=float(now)) for now in range(100, 111)) == 1


def test_a_server_that_is_away_is_told_when_it_is_back(prefect: type[Prefect]) -> None:
    debounce = Debounce(60)
    prefect.answer = 503
    with pytest.raises(PrefectRefused):
        deliver(rest(prefect), [happened("g-a")], debounce, now=0.0)
    prefect.answer = 204
    assert deliver(rest(prefect), [happened("g-a")], debounce, now=1.0) == 1


def test_the_worker_wakes_for_a_group_that_still_waits_and_for_no_other() -> None:
    debounce = Debounce(50)
    assert debounce.wakes_at(5.0) == 5.0
    debounce.told(["g-a", "g-b"], 0.0)
    assert debounce.wakes_at(5.0) == 20.0
    debounce.due(["g-a", "g-b"], 21.0)
    assert debounce.wakes_at(22.0) == 50.0
    debounce.due([], 23.0)
    assert debounce.wakes_at(24.0) == 24.0


def test_no_words_of_a_session_leave_the_store() -> None:
    assert "secret words" not in json.dumps(prefect_event("g-a", [happened("g-a")]))
