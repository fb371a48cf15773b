"""Nights in which something is killed, beside the same nights undisturbed: in the end both homes hold the same.

Each night both homes get the same new sessions and spend a night on them, at the same moment of an injected clock
that runs through the change to summer time, with its missing hour, and is set back once. In one home the server, the
worker or the process of the run is killed at a random moment; then `up` is called, as an operator or systemd does. A
person approves what waits. Ids and times of what happened are not compared, everything else is.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from zoneinfo import ZoneInfo

from pydantic import JsonValue

from benchmarks.flows_home import LIVE, Home, until
from benchmarks.result import progress
from examples.order_desk.record import sessions
from instar.core import records
from instar.core.events import EVENT, waiting
from instar.core.night import Night, NightState, nights
from instar.core.reviews import DecisionKind, ReviewState, decide, list_reviews
from instar.core.runtime import Runtime, runtime
from instar.flows.review_runs import tend
from instar.memstore import Page

ZONE = ZoneInfo("Europe/Berlin")
FIRST = datetime(2026, 3, 20, 2, 30, tzinfo=ZONE)
"""The ninth night is that of the missing hour: 02:30 does not exist on 2026-03-29."""
SET_BACK = 14
"""In this night the clock is three hours behind the night before."""
SEED = 27
PER_NIGHT = 14
LONGEST_WAIT = 12.0
"""Seconds into a night until which something is killed."""
COMPARED = (
    records.SESSION,
    records.STEP,
    records.TOOLSET,
    records.DISTILLED,
    records.MEMORY,
    records.PRD,
    records.DRAFT,
    records.REVIEW,
    "link",
    "summary",
)
VOLATILE = frozenset(
    {"gates", "at", "opened_at", "closed_at", "run", "attempts", "asked", "since", "through", "location"}
)


@dataclass(frozen=True, slots=True)
class Soaked:
    """What came of it."""

    nights: int
    differences: list[str]
    killed: dict[str, int] = field(default_factory=dict)
    attempts: int = 0
    """Attempts that all disturbed nights took together."""


def soak(place: Path, count: int, *, seed: int = SEED, kills: float = 1.0) -> Soaked:
    """Spend `count` nights twice, and compare. In a night something is killed with the probability `kills`.

    Raises:
        TookTooLong: a night did not end; that is a finding of its own.
    """
    chance = random.Random(seed)
    calm, rough = Home(place / "calm", proposals=2), Home(place / "rough", proposals=2)
    killed: Counter[str] = Counter()
    try:
        for home in (calm, rough):
            home.up()
        source = sessions(seed, count * PER_NIGHT)
        for number in range(1, count + 1):
            lines = [json.dumps(session) + "\n" for session in islice(source, PER_NIGHT)]
            for home in (calm, rough):
                (home.logs / f"night-{number:02d}.jsonl").write_text("".join(lines), encoding="utf-8")
            _spend(calm, number)
            victim = chance.choice(LIVE) if chance.random() < kills else ""
            wait = chance.uniform(0, LONGEST_WAIT)
            if _spend(rough, number, victim, wait):
                killed[victim] += 1
            progress(f"night {number} of {count}" + (f", {victim} killed after {wait:.1f} s" if victim else ""))
        for home in (calm, rough):
            _settle(home)
        differences = [*compare(calm, rough), *(f"process {pid} was left over" for pid in rough.down())]
        attempts = sum(night.attempts for night in _nights(rough))
        return Soaked(len(_successful(rough)), differences, dict(killed), attempts)
    finally:
        for home in (calm, rough):
            home.down()


def moment(number: int) -> datetime:
    """What the clock says in a night."""
    back = timedelta(hours=3 + 24) if number == SET_BACK else timedelta()
    return FIRST + timedelta(days=number - 1) - back


def _spend(home: Home, number: int, victim: str = "", wait: float = 0.0) -> bool:
    """One night; returns whether something was killed."""
    began = time.monotonic()
    run = home.ask("nightly", at=moment(number).isoformat())
    hit = False
    if victim:
        # A process of the run that is not there yet cannot be killed: it is waited for, within the wait.
        while time.monotonic() - began < wait:
            time.sleep(0.05)
        hit = home.kill(victim, run)
        home.up()
    until(lambda: _ended(home, number, run), f"night {number} ends in {home.path.name}")
    _decide(home)
    return hit


def _ended(home: Home, number: int, run: str) -> bool:
    """Whether so many nights are settled; where the run never opened its night, or gave it up, it is asked again."""
    if len(_successful(home)) >= number:
        return True
    if str(home.run(run).get("state_type")) in ("CRASHED", "FAILED", "CANCELLED"):
        last = home.last_night()
        live = [
            each for each in home.runs("nightly") if each.get("state_type") in ("SCHEDULED", "PENDING", "RUNNING")
        ]
        if not live and (last is None or last.state is not NightState.OPEN):
            home.ask("nightly", at=moment(number).isoformat())
            time.sleep(2)
    return False


def _decide(home: Home) -> None:
    """A person approves everything that waits."""
    with runtime(home.settings) as rt:
        for review in list_reviews(rt):
            if review.state is ReviewState.PENDING:
                decide(rt, review.id, DecisionKind.APPROVE, by="soak", confirm_risk=True, expect_digest=review.digest)


def _settle(home: Home) -> None:
    """Wait until every failure that was told is answered, and no run asks about what was decided."""
    tend(home.settings, home.rest)
    with runtime(home.settings) as rt:
        until(lambda: not list(waiting(rt)), f"all failures are answered in {home.path.name}")


def compare(calm: Home, rough: Home) -> list[str]:
    """Everything in which the two homes differ."""
    differences: list[str] = []
    with runtime(calm.settings) as one, runtime(rough.settings) as other:
        for kind in COMPARED:
            differences += _differing(kind, _pages(one, kind), _pages(other, kind))
        differences += _differing("night", _night_results(one), _night_results(other))
        differences += _differing("gates", _verdicts(one), _verdicts(other))
        differences += _differing("skill", _skills(one), _skills(other))
        differences += _differing("publication", _published(one), _published(other))
        differences += _differing("decision", _decisions(one), _decisions(other))
        differences += _differing("event", _events(one), _events(other))
        differences += [f"store: {problem}" for problem in other.store.check()]
        differences += [
            f"run {run.get('name')} still waits" for run in rough.runs("review") if run.get("state_type") == "PAUSED"
        ]
    return differences


def _differing(what: str, one: dict[str, str], other: dict[str, str]) -> Iterator[str]:
    for name in sorted(one.keys() | other.keys()):
        if one.get(name) != other.get(name):
            sides = [side for side, pages in (("calm", one), ("rough", other)) if name in pages]
            yield f"{what} {name}: " + ("other content" if len(sides) == 2 else f"only in {sides[0]}")


def _pages(rt: Runtime, kind: str) -> dict[str, str]:
    return {page.id: _digest(page.content) for page in rt.store.find(rt.principal, scope="local", kind=kind)}


def _night_results(rt: Runtime) -> dict[str, str]:
    """What each successful night did, in their order; a night that was given up in between is one more attempt."""
    finished = [night for night in nights(rt) if night.finished]
    # What a reading or a maintenance counts depends on where the one before it was cut off; what it left does not.
    left_out = {"id", "number", "ingest", "maintenance", "drafts", "reason"}
    told = [night.model_dump(mode="json", exclude=left_out) for night in finished]
    drafts = [
        [(draft.skill, draft.version, draft.draft, draft.verdict) for draft in night.drafts] for night in finished
    ]
    rows = zip(reversed(told), reversed(drafts), strict=True)
    return {f"{number}": _digest(row) + json.dumps(made) for number, (row, made) in enumerate(rows, start=1)}


def _verdicts(rt: Runtime) -> dict[str, str]:
    pages = rt.store.find(rt.principal, scope="local", kind=records.GATES)
    return {str(page.content["digest"]): str(page.state.value) for page in pages}


def _skills(rt: Runtime) -> dict[str, str]:
    return {
        f"{entry.record.name} {version.record.version}": version.record.digest
        for entry in rt.registry.list()
        for version in rt.registry.versions(entry.record.name)
    }


def _published(rt: Runtime) -> dict[str, str]:
    pages = rt.store.find(rt.principal, scope="local", kind=records.PUBLICATION)
    return {page.id: str(page.content["digest"]) for page in pages}


def _decisions(rt: Runtime) -> dict[str, str]:
    pages = rt.store.find(rt.principal, scope="local", kind=records.DECISION)
    return {page.id: str(page.content["kind"]) for page in pages}


def _events(rt: Runtime) -> dict[str, str]:
    pages = list(rt.store.find(rt.principal, scope="local", kind=EVENT))
    return {page.id: page.state.value + _answered(rt, page) for page in pages}


def _answered(rt: Runtime, event: Page) -> str:
    """Whether the reflection that answers an event is there, and rests on its session."""
    reflection = rt.store.get(rt.principal, str(event.content.get("reflection", "")))
    return " answered" if reflection is not None else " without an answer"


def _digest(content: Mapping[str, JsonValue]) -> str:
    return hashlib.sha256(json.dumps(_steady(dict(content)), sort_keys=True).encode()).hexdigest()[:16]


def _steady(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _steady(item) for key, item in value.items() if key not in VOLATILE}
    return [_steady(item) for item in value] if isinstance(value, list) else value


def _nights(home: Home) -> list[Night]:
    with runtime(home.settings) as rt:
        return list(nights(rt))


def _successful(home: Home) -> list[Night]:
    return [night for night in _nights(home) if night.state is not NightState.FAILED and night.finished]
