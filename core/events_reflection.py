"""Reflection on failures: on just the sessions that the waiting events tell of."""

from __future__ import annotations

from contextlib import suppress

from pydantic import BaseModel, ConfigDict

from instar.core import learn
from instar.core.events import EVERYTHING, answer, waiting
from instar.core.runtime import Runtime
from instar.engine.documents import Reflection
from instar.memstore import Rejected

ATTEMPTS = 3
MOST = 5_000
"""Events that one reflection answers; more are left to the next."""


class Answered(BaseModel):
    """What became of the events of a group."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    group: str
    events: int = 0
    sessions: int = 0
    reflection: Reflection | None = None
    """None where nothing waited, or no event named a session."""
    notes: list[str] = []
    """What people and agents said with the events."""


def reflect_on_events(rt: Runtime, group: str = EVERYTHING) -> Answered:
    """Reflect on the sessions of all events of a group that wait, and answer them with it.

    Reflection and answers are stored together: after an interruption the events still wait, and two of these at once
    leave every event answered once. The reflection tells no event itself.

    Raises:
        MemstoreError: the store cannot be read or written; nothing was stored.
    """
    for _ in range(ATTEMPTS):
        with suppress(Rejected):  # another reflection answered some of these meanwhile: look again what is left
            return _answer(rt, group)
    return _answer(rt, group)


def _answer(rt: Runtime, group: str) -> Answered:
    events = [event for event, _ in zip(waiting(rt, group), range(MOST), strict=False)]
    if not events:
        return Answered(group=group)
    sessions = {event.session for event in events if event.session}
    reflection = None
    if sessions:
        learn.distill(rt, only=sessions)
        reflection = rt.engine.reflect(learn.window(rt, rt.settings.scope, only=sessions), learn.catalogue(rt))
    drafts = [] if reflection is None else learn.reflection_drafts(rt, reflection)
    with rt.store.writeback(rt.principal, scope=rt.settings.scope) as batch:
        for draft in drafts:
            batch.append(draft)
        answer(batch, events, "" if reflection is None else reflection.id)
    notes = list(dict.fromkeys(event.note for event in events if event.note))
    return Answered(group=group, events=len(events), sessions=len(sessions), reflection=reflection, notes=notes[:50])
