"""What `instar status` knows: what runs, what comes next, what waits, and what a person should look at."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from pydantic import BaseModel, ConfigDict, JsonValue

from instar.core import records
from instar.core.drain import spool_alarms
from instar.core.events import waiting
from instar.core.night import Night, NightState, nights
from instar.core.reviews import ReviewState, list_reviews
from instar.core.runtime import Runtime
from instar.core.settings import Settings
from instar.flows.auth import read_secret
from instar.flows.deployments import DEPLOYMENTS
from instar.flows.errors import HomeNotUsable, PrefectRefused
from instar.flows.rest import Rest
from instar.flows.server import Server
from instar.flows.vectors import VectorsOwner, needed
from instar.flows.worker import Worker

ACTION_FAILED = "prefect.automation.action.failed"
RECENT = timedelta(hours=24)
LOOKED_AT = 200
"""The newest sessions, among which the last one that arrived or grew is looked for."""


class LastNight(BaseModel):
    """The last night, as far as it matters at a glance."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: int
    state: str
    opened_at: str
    closed_at: str
    sessions: int
    reason: str
    run: str


class Overview(BaseModel):
    """Everything at a glance. A time is ISO 8601 with its zone; empty where there is none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: str
    """Of the server: running, starting, hangs or stopped."""
    server: str | None
    log: str
    worker: str
    """Of the worker: running, starting, hangs, ended (by itself) or stopped."""
    worker_log: str
    serves: list[str]
    vectors: str
    """Of their owner: running, waits, starting, hangs, ended (by itself) or stopped; empty where none is needed."""
    last_night: LastNight | None
    next_night: str
    pending_reviews: list[str]
    waiting_events: int
    last_session: str
    last_failure: str
    """The last run that failed or crashed, with its reason."""
    alarms: list[str]

    @property
    def runs(self) -> bool:
        """Whether nothing is missing for nights and reflections to begin by themselves."""
        return self.state == self.worker == "running"


def overview(rt: Runtime, now: datetime | None = None) -> Overview:
    """Look at everything. Changes nothing, but for finishing a publication that was interrupted.

    Raises:
        MemstoreError: the store cannot be read.
        HomeNotUsable: the home belongs to someone else.
    """
    now = now or datetime.now(UTC)
    home = rt.settings.home
    server, worker = Server(home).status(), Worker(home).status()
    night = next(nights(rt), None)
    arrived = _last_session(rt)
    vectors, refused = _vectors(rt.settings)
    alarms = [*refused, *_not_running(server.state, worker.state, vectors), *_silence(rt, arrived, now)]
    alarms += _nights(night)
    alarms += spool_alarms(rt.settings)
    next_night = last_failure = ""
    if server.info is not None:
        rest = Rest(server.info.address, read_secret(home))
        try:
            next_night, last_failure = _next_night(rest), _last_failure(rest)
            alarms += _failed_actions(rest, now)
        except PrefectRefused as error:
            alarms.append(str(error))
    return Overview(
        state=server.state,
        server=None if server.info is None else server.info.address,
        log=str(server.log),
        worker=worker.state,
        worker_log=str(worker.log),
        vectors=vectors,
        serves=[] if worker.record is None else worker.record.served,
        last_night=None if night is None else _last_night(night),
        next_night=next_night,
        pending_reviews=[review.id for review in list_reviews(rt) if review.state is ReviewState.PENDING],
        waiting_events=sum(1 for _ in waiting(rt)),
        last_session=_stamp(arrived),
        last_failure=last_failure,
        alarms=alarms,
    )


def _vectors(settings: Settings) -> tuple[str, list[str]]:
    """The state of their owner; a folder of the index that cannot be used is an alarm beside all the rest."""
    if not needed(settings):
        return "", []
    try:
        return VectorsOwner(settings.home).status().state, []
    except HomeNotUsable as error:
        return "unusable", [str(error)]


def _not_running(server: str, worker: str, vectors: str) -> Iterator[str]:
    if vectors == "ended":
        yield "The owner of the vectors ended by itself; recall works without it, and `instar up` starts it"
    if "hangs" in (server, worker, vectors):
        yield "Something lives and does not answer; `instar up` replaces it"
    elif worker == "ended":
        yield "The worker ended by itself: nothing begins any more; `instar up` starts it, its log may say why"
    elif worker == "running" and server == "stopped":
        yield "The server ended: nothing begins any more; `instar up` repairs that"


def _silence(rt: Runtime, arrived: datetime | None, now: datetime) -> Iterator[str]:
    hours = rt.settings.silence_hours
    if arrived is None:
        if rt.settings.sources:
            yield "No session has arrived yet, though there are sources; `instar ingest` says what it finds in them"
    elif now - arrived > timedelta(hours=hours):
        since = (now - arrived) / timedelta(hours=1)
        yield f"No session has arrived for {since:.0f} hours; check what records them (silence_hours is {hours:g})"


def _nights(night: Night | None) -> Iterator[str]:
    if night is not None and night.state is NightState.FAILED:
        yield f"Night {night.number} failed: {night.reason}"
    elif night is not None and night.state is NightState.OPEN and night.attempts > 1:
        yield f"Night {night.number} was cut off {night.attempts - 1} times and is not finished"
    if night is not None and night.maintenance is not None and night.maintenance.failed:
        yield f"Maintenance of night {night.number} was not done: {night.maintenance.failed}"


def _last_session(rt: Runtime) -> datetime | None:
    """When a session arrived, or grew, last."""
    newest = rt.store.find(
        rt.principal, scope=rt.settings.scope, kind=records.SESSION, newest_first=True, limit=LOOKED_AT
    )
    return max((page.updated_at for page in newest), default=None)


def _last_night(night: Night) -> LastNight:
    return LastNight(
        number=night.number,
        state=night.state.value,
        opened_at=_stamp(night.opened_at),
        closed_at=_stamp(night.closed_at),
        sessions=night.sessions,
        reason=night.reason,
        run=night.run,
    )


def _next_night(rest: Rest) -> str:
    runs = _runs(rest, ["nightly"], ["SCHEDULED"], "EXPECTED_START_TIME_ASC")
    return str(runs[0].get("expected_start_time") or "") if runs else ""


def _last_failure(rest: Rest) -> str:
    names = [each.name for each in DEPLOYMENTS]
    runs = _runs(rest, names, ["FAILED", "CRASHED"], "END_TIME_DESC")
    if not runs:
        return ""
    state = runs[0].get("state")
    message = str(state.get("message") or "") if isinstance(state, dict) else ""
    return f"{runs[0].get('end_time') or ''} {runs[0].get('name')}: {' '.join(message.split())[:300]}"


def _runs(rest: Rest, flows: list[str], states: list[str], order: str) -> list[dict[str, JsonValue]]:
    body: dict[str, JsonValue] = {
        "flows": {"name": {"any_": list(flows)}},
        "flow_runs": {"state": {"type": {"any_": list(states)}}},
        "sort": order,
        "limit": 1,
    }
    answer = rest.post("/flow_runs/filter", body)
    return [row for row in answer if isinstance(row, dict)] if isinstance(answer, list) else []


def _failed_actions(rest: Rest, now: datetime) -> list[str]:
    """Automations of the last day whose action could not be done: Prefect itself only logs a warning."""
    body: dict[str, JsonValue] = {
        "filter": {
            "occurred": {"since": (now - RECENT).isoformat(), "until": (now + RECENT).isoformat()},
            "event": {"name": [ACTION_FAILED]},
        },
        "limit": 50,
    }
    answer = rest.post("/events/filter", body)
    events = answer.get("events") if isinstance(answer, dict) else None
    found = [event for event in events if isinstance(event, dict)] if isinstance(events, list) else []
    if not found:
        return []
    payload = found[0].get("payload")
    reason = str(payload.get("reason") or "") if isinstance(payload, dict) else ""
    return [f"An automation failed {len(found)} times in 24 hours, at last: {' '.join(reason.split())[:300]}"]


def _stamp(at: datetime | None) -> str:
    return "" if at is None else at.isoformat(timespec="seconds")
