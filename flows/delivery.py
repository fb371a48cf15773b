"""From the outbox to Prefect: events that wait become Prefect events, debounced, until a reflection answers them.

Delivery is repeated with growing pauses for as long as a group of events waits. So nothing is lost when the server
forgets an event, an automation fails, or a run is killed; and as a group is told of at most once in the debounce
time, a storm of failures becomes few runs, each of which takes all the evidence there is.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from instar.core.events import EVERYTHING, Happened
from instar.flows.rest import Rest

RESOURCE = "instar.failures"
"""The Prefect resource under which failures are told; the automation listens to nothing else."""
MANY = 3
"""When more groups than this are due at once, one event stands for them all."""
LONGEST_PAUSE = 3_600.0
LONGEST_HOLD = 20.0
SHORTEST_PAUSE = 5.0


@dataclass(slots=True)
class _Told:
    """What is remembered of a group that was told of."""

    at: float
    times: int
    again: float
    """When it may be told of again."""
    waits: bool = True
    """Whether it is not answered yet."""


@dataclass(slots=True)
class Debounce:
    """When groups of events may be told of. A value of the worker's memory: losing it repeats a telling.

    While a telling is not answered others are held back for a moment, so that what comes meanwhile comes together.
    """

    seconds: float
    _groups: dict[str, _Told] = field(default_factory=dict)
    _looked: float = 0.0

    def due(self, waiting: Iterable[str], now: float) -> list[str]:
        """The groups that may be told of now; those that wait no longer begin anew the next time."""
        groups = set(waiting)
        self._looked = now
        for name, told in list(self._groups.items()):
            if name not in groups:
                told.waits, told.times = False, 0
                if told.again <= now:
                    del self._groups[name]
        if any(told.waits and now < told.at + self._hold for told in self._groups.values()):
            return []
        return sorted(name for name in groups if name not in self._groups or self._groups[name].again <= now)

    def told(self, groups: Iterable[str], now: float) -> None:
        """Remember that these were told of."""
        for name in groups:
            before = self._groups.get(name)
            times = 0 if before is None else before.times
            pause = min(self.seconds * 2**times, max(self.seconds, LONGEST_PAUSE))
            self._groups[name] = _Told(now, times + 1, now + pause)

    def repeated(self, groups: Iterable[str]) -> set[str]:
        """Those of the groups that were told of and are not answered."""
        return {name for name in groups if name in self._groups and self._groups[name].waits}

    def postpone(self, groups: Iterable[str], now: float) -> None:
        """Look at these again after the debounce time; telling of them again would be too soon."""
        for name in groups:
            self._groups[name].again = now + max(self.seconds, SHORTEST_PAUSE)

    def wakes_at(self, now: float) -> float:
        """When the next look is worth it, though nothing was kept or answered meanwhile; `now` for never."""
        waiting = [told for told in self._groups.values() if told.waits]
        moments = [moment for told in waiting for moment in (told.at + self._hold, told.again)]
        return min((moment for moment in moments if moment > self._looked), default=now)

    @property
    def _hold(self) -> float:
        return min(self.seconds, LONGEST_HOLD)


def deliver(rest: Rest, waiting: Sequence[Happened], debounce: Debounce, now: float) -> int:
    """Tell Prefect of the groups that are due; returns how many events that took.

    Raises:
        PrefectRefused: the server does not answer, or says no; nothing was remembered as told.
    """
    groups: dict[str, list[Happened]] = defaultdict(list)
    for event in waiting:
        groups[event.group].append(event)
    due = debounce.due(groups, now)
    again = debounce.repeated(due)
    if again and _in_work(rest):
        debounce.postpone(again, now)
        due = [group for group in due if group not in again]
    if not due:
        return 0
    if len(due) > MANY:
        told = [prefect_event(EVERYTHING, [event for group in due for event in groups[group]])]
    else:
        told = [prefect_event(group, groups[group]) for group in due]
    rest.post("/events", told)
    debounce.told(due, now)
    return len(told)


def _in_work(rest: Rest) -> bool:
    """Whether a reflection runs, or is about to: on a busy machine that may take longer than the debounce time."""
    body: dict[str, JsonValue] = {
        "flows": {"name": {"any_": ["reflect-on-failure"]}},
        "flow_runs": {"state": {"type": {"any_": ["SCHEDULED", "PENDING", "RUNNING"]}}},
    }
    count = rest.post("/flow_runs/count", body)
    return isinstance(count, int) and count > 0


def prefect_event(group: str, events: Sequence[Happened]) -> JsonValue:
    """What Prefect is told of a group. It holds no text of sessions beyond the names of agent and cause."""
    last = events[-1]
    many = len({event.group for event in events}) > 1
    agent, cause = ("several", "several") if many else (last.agent, last.cause)
    return {
        "id": str(uuid.uuid4()),
        "occurred": last.at.isoformat(),
        "event": last.name.value,
        "resource": {
            "prefect.resource.id": f"{RESOURCE}.{group}",
            "prefect.resource.name": agent,
            "instar.group": group,
            "instar.cause": cause,
        },
        "related": [],
        "payload": {"events": len(events), "sessions": len({event.session for event in events if event.session})},
    }
