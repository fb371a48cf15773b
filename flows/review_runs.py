"""The runs that stand for reviews: one suspended run for each review that waits.

The pages decide; a run only shows them and takes an answer. So a run can be lost, doubled or late, and `tend` brings
the runs back to what the pages say. This module never imports Prefect.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue

from instar.core.review_pages import Review, ReviewState
from instar.core.reviews import expire, get_review, list_reviews
from instar.core.revising import waiting_revisions
from instar.core.runtime import Runtime, runtime
from instar.core.settings import Settings, load_settings
from instar.flows.auth import read_secret
from instar.flows.errors import PrefectRefused
from instar.flows.rest import Rest
from instar.flows.server import Server

DEPLOYMENT = "/deployments/name/review/review"
WAITS = (ReviewState.PENDING,)
ENDS = {
    ReviewState.APPROVED: "Approved",
    ReviewState.PUBLISHED: "Published",
    ReviewState.RETIRED: "Retired",
    ReviewState.REJECTED: "Rejected",
    ReviewState.REVISE: "SentBack",
    ReviewState.EXPIRED: "Expired",
    ReviewState.STALE: "Stale",
}
"""The name of the state in which a run ends, by what became of its review."""
GRACE_DAYS = 30
"""Days that a run waits beyond its review: a review expires, its run does not fail."""
LIVE = ("PAUSED", "SCHEDULED", "PENDING", "RUNNING")
BROKEN = ("CRASHED", "FAILED", "CANCELLED", "CANCELLING")
TRIES = 5
"""Runs of one review that may break before no further one is started."""


class Run(BaseModel):
    """What counts of a flow run."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    name: str
    state_type: str | None = None
    tags: list[str] = []
    deployment_id: str | None = None
    state: dict[str, JsonValue] | None = None


@dataclass(frozen=True, slots=True)
class Tended:
    """What `tend` did."""

    opened: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    continued: tuple[str, ...] = ()
    expired: tuple[str, ...] = ()
    revise: tuple[str, ...] = ()
    """Reviews that were sent back and not answered yet."""


def run_name(review: Review) -> str:
    """How the run of a review is called in the UI."""
    return (
        f"review {review.skill} v{review.version}" if review.action == "publish" else f"review retire {review.skill}"
    )


def reached(home: Path) -> Rest | None:
    """The API of the server of a home, where one answers."""
    info = Server(home).find()
    return None if info is None else Rest(info.address, read_secret(home))


def open_review(rt: Runtime, review_id: str, rest: Rest | None = None) -> str:
    """Make sure that a suspended run asks about this review; return the run's page, "" where no server can show one.

    Calling it again changes nothing. Without a server or its worker the review waits in the store, and gets its run
    at the next `instar up`.

    Raises:
        NotFound: there is no such review.
        PrefectRefused: the server is there and says no.
    """
    rest = rest or Rest.of_this_run() or reached(rt.settings.home)
    review = get_review(rt, review_id)
    if rest is None or review.state not in WAITS:
        return ""
    run = _ensure(rest, rt.settings.scope, review, _runs(rest, review.id))
    return "" if run is None else f"{rest.address}/runs/flow-run/{run}"


def ask(options: Mapping[str, str | int | bool], reviews: Sequence[str]) -> dict[str, str]:
    """Where each of these reviews can be answered; "" for one that the server cannot show yet.

    For a flow, at its end. A server that says no now is asked again by `tend`.
    """
    if not reviews:
        return {}
    asked = {}
    with runtime(load_settings(os.environ, options)) as rt:
        for review_id in reviews:
            try:
                asked[review_id] = open_review(rt, review_id)
            except PrefectRefused:
                asked[review_id] = ""
    return asked


def end_run(rt: Runtime, review_id: str, rest: Rest | None = None) -> bool:
    """End the run of a review that was decided elsewhere; return whether one was waiting.

    Raises:
        NotFound: there is no such review.
        PrefectRefused: the server is there and says no.
    """
    rest = rest or reached(rt.settings.home)
    review = get_review(rt, review_id)
    return rest is not None and review.state not in WAITS and _end(rest, review, _runs(rest, review.id))


def tend(settings: Settings, rest: Rest) -> Tended:
    """Let reviews expire, give every review that waits its run, and end the runs of those that wait no longer.

    Raises:
        PrefectRefused: the server does not answer.
    """
    with runtime(settings) as rt:
        expired = expire(rt)
        reviews = list_reviews(rt)
        revise = tuple(waiting_revisions(rt))
    by_review: dict[str, list[Run]] = {}
    for run in _runs(rest):
        for tag in run.tags:
            by_review.setdefault(tag, []).append(run)
    opened, ended, continued = [], [], []
    for review in reviews:
        runs = by_review.get(_tag(review.id), [])
        if review.state in WAITS:
            if _continue(rest, runs):
                continued.append(review.id)
            elif not _asked(rest, runs) and _ensure(rest, settings.scope, review, runs) is not None:
                opened.append(review.id)
        elif _end(rest, review, runs):
            ended.append(review.id)
    return Tended(tuple(opened), tuple(ended), tuple(continued), tuple(each.id for each in expired), revise)


def _tag(review_id: str) -> str:
    return f"review:{review_id}"


def _runs(rest: Rest, review_id: str = "") -> list[Run]:
    """The runs of one review, or of all, the newest first."""
    about: dict[str, JsonValue] = {"tags": {"all_": [_tag(review_id)]}} if review_id else {}
    found: list[Run] = []
    while True:
        body: dict[str, JsonValue] = {
            "flows": {"name": {"any_": ["review"]}},
            "flow_runs": {**about, "state": {"type": {"any_": [*LIVE, *BROKEN]}}},
            "sort": "EXPECTED_START_TIME_DESC",
            "limit": 200,
            "offset": len(found),
        }
        page = rest.post("/flow_runs/filter", body)
        rows = page if isinstance(page, list) else []
        found += [Run.model_validate(row) for row in rows]
        if len(rows) < 200:
            return found


def _ensure(rest: Rest, scope: str, review: Review, runs: Sequence[Run]) -> str | None:
    """The run that asks about a review; None where no worker serves the flow, or too many runs of it broke."""
    live = [run for run in runs if run.state_type in LIVE]
    if live:
        return live[0].id
    deployment = rest.get(DEPLOYMENT)
    if not isinstance(deployment, dict) or len(runs) >= TRIES:
        return None
    body: dict[str, JsonValue] = {
        "name": run_name(review),
        "parameters": {"review_id": review.id, "scope": scope},
        "tags": [_tag(review.id), review.skill],
        "idempotency_key": f"{review.id}#{_count(rest, review.id) + 1}",
    }
    created = rest.post(f"/deployments/{deployment['id']}/create_flow_run", body)
    return str(created["id"]) if isinstance(created, dict) else None


def _count(rest: Rest, review_id: str) -> int:
    """How many runs a review has had, whatever became of them."""
    found = rest.post("/flow_runs/count", {"flow_runs": {"tags": {"all_": [_tag(review_id)]}}})
    return found if isinstance(found, int) else 0


def _continue(rest: Rest, runs: Sequence[Run]) -> bool:
    """Let the last run go on that was answered and then broke: its answer is kept, and is not asked for again."""
    if not runs or any(run.state_type in LIVE for run in runs) or runs[0].state_type != "CRASHED":
        return False
    return len(runs) < TRIES and _set(rest, runs[0], "SCHEDULED", "Resuming", "Goes on after a crash")


def _asked(rest: Rest, runs: Sequence[Run]) -> bool:
    """Whether a run asks, or is about to. One that was killed as it was suspended lacks its form: it is ended."""
    for run in runs:
        if run.state_type != "PAUSED":
            continue
        details = (run.state or {}).get("state_details")
        keys = details.get("run_input_keyset") if isinstance(details, Mapping) else None
        schema = keys.get("schema") if isinstance(keys, Mapping) else None
        if schema is None or rest.get(f"/flow_runs/{run.id}/input/{schema}") is None:
            _set(rest, run, "CANCELLED", "Cancelled", "It was stopped before its form was stored; asked again")
            return False
    return any(run.state_type in LIVE for run in runs)


def _end(rest: Rest, review: Review, runs: Sequence[Run]) -> bool:
    """End what still waits of a review that does not. A run that works on an answer ends by itself."""
    decision = review.decision
    said = "" if decision is None else f"{decision.kind.value} by {decision.by} at {decision.at} {decision.comment}"
    ended = False
    for run in runs:
        if run.state_type in ("PAUSED", "SCHEDULED", "CRASHED"):
            ended = _set(rest, run, "COMPLETED", ENDS[review.state], said.strip() or review.state.value) or ended
    return ended


def _set(rest: Rest, run: Run, kind: str, name: str, message: str) -> bool:
    state: dict[str, JsonValue] = {"type": kind, "name": name, "message": message}
    answer = rest.post(f"/flow_runs/{run.id}/set_state", {"state": state, "force": run.state_type == "CRASHED"})
    return isinstance(answer, dict) and answer.get("status") == "ACCEPT"
