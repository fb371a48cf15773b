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


@dataclass(slots=True)
class Debounce:
    """When each group of events may be told of again. A value of the worker's memory: losing it repeats a telling."""

    seconds: float
    _next: dict[str, float] = field(default_factory=dict)
    _told: dict[str, int] = field(default_factory=dict)

    def due(self, waiting: Iterable[str], now: float) -> list[str]:
        """The groups that may be told of now; those that wait no longer begin anew the next time."""
        groups = set(waiting)
        for group in [group for group, at in self._next.items() if group not in groups]:
            self._told[group] = 0
            if self._next[group] <= now:
                del self._next[group], self._told[group]
        return sorted(group for group in groups if self._next.get(group, now) <= now)

    def told(self, groups: Iterable[str], now: float) -> None:
        """Remember that these were told of."""
        for group in groups:
            times = self._told.get(group, 0)
            self._told[group] = times + 1
            self._next[group] = now + min(self.seconds * 2**times, max(self.seconds, LONGEST_PAUSE))

    def wakes_at(self, now: float) -> float:
        """When a group that still waits may be told of again; `now` where there is none."""
        return min((at for group, at in self._next.items() if self._told.get(group)), default=now)


def deliver(rest: Rest, waiting: Sequence[Happened], debounce: Debounce, now: float) -> int:
    """Tell Prefect of the groups that are due; returns how many events that took.

    Raises:
        PrefectRefused: the server does not answer, or says no; nothing was remembered as told.
    """
    groups: dict[str, list[Happened]] = defaultdict(list)
    for event in waiting:
        groups[event.group].append(event)
    due = debounce.due(groups, now)
    if not due:
        return 0
    if len(due) > MANY:
        told = [prefect_event(EVERYTHING, [event for group in due for event in groups[group]])]
    else:
        told = [prefect_event(group, groups[group]) for group in due]
    rest.post("/events", told)
    debounce.told(due, now)
    return len(told)


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
