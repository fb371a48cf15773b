"""Events: what went wrong, kept as pages until a reflection has answered it.

The pages are the outbox. An event is written in the transaction of what caused it (a session that failed is stored
together with its event), stays `PENDING` while no reflection rests on it, and becomes `SUCCESS` in the transaction
that stores the reflection. So none is lost while nothing runs, and none is answered twice.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, JsonValue

from instar.core import records
from instar.core.errors import NotFound, SourceMissing
from instar.core.runtime import Runtime
from instar.engine.session import OutcomeStatus, ResultStatus, Session
from instar.memstore import Change, Page, PageDraft, PageType, Provenance, State, Writeback

EVENT, FEEDBACK = "event", "feedback"
MIN_ERRORS = 3
MIN_SHARE = 0.25
"""A session struggled when so many, and such a share, of its tool calls failed."""
LONGEST = 200
TOLD = ("name", "agent", "cause", "group", "session", "note")
EVERYTHING = "g-everything"
"""The group that stands for all events that wait."""


class EventName(StrEnum):
    """What can be told."""

    FAILED = "instar.task.failed"
    STRUGGLED = "instar.task.struggled"
    TOOL_MISSING = "instar.tool.missing"
    FEEDBACK = "instar.feedback.negative"


class Happened(BaseModel):
    """One event, as it is kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    name: EventName
    agent: str
    cause: str
    group: str
    """The same for all events of one agent with one cause; never looks like a number."""
    session: str
    note: str
    at: datetime
    version: int


def group_of(agent: str, cause: str) -> str:
    """The key by which events are debounced."""
    key = f"{agent}\0{cause}"
    return f"g-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def event_name(text: str) -> EventName:
    """The event that is meant by its name, with or without the leading "instar.".

    Raises:
        SourceMissing: there is no such event.
    """
    for name in EventName:
        if text in (name.value, name.value.removeprefix("instar.")):
            return name
    raise SourceMissing(f"There is no event {text!r}", f"Known: {', '.join(EventName)}")


def agent_of(session: Session) -> str:
    """Who ran a session: what recorded it, and where it worked."""
    return f"{session.format}/{session.project}"


def told_by(session: Session) -> list[tuple[EventName, str]]:
    """The events that a session is, each with its cause; results and recorded outcomes decide, never words."""
    errors: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    offered = {tool.name for tool in session.tools}
    calls = 0
    for call, result in session.exchanges():
        calls += 1
        if result is not None and result.status is ResultStatus.ERROR:
            errors[call.tool] += 1
            if offered and call.tool not in offered:
                missing[call.tool] += 1
    worst = errors.most_common(1)[0][0] if errors else "no tool failed"
    told = [(EventName.TOOL_MISSING, tool) for tool in sorted(missing)]
    if session.outcome.status is OutcomeStatus.FAILURE:
        told.append((EventName.FAILED, worst))
    elif errors.total() >= MIN_ERRORS and errors.total() >= MIN_SHARE * calls:
        told.append((EventName.STRUGGLED, worst))
    return told


def session_events(session: Session, digest: str) -> list[PageDraft]:
    """The pages of what a session tells; the same steps with the same outcome give the same ids."""
    state = f"{session.page_id}\0{digest}\0{session.outcome.status}"
    return [
        _draft(name, agent_of(session), cause, session=session.page_id, key=state) for name, cause in told_by(session)
    ]


def tell(rt: Runtime, name: EventName, *, agent: str, cause: str, session: str = "", note: str = "") -> str:
    """Keep an event that was told from outside; returns its page.

    Raises:
        NotFound: the session it names is not stored.
        MemstoreError: it cannot be kept.
    """
    page_id = find_session(rt, session).id if session else ""
    draft = _draft(name, agent, cause, session=page_id, key=secrets.token_hex(8), note=note)
    with rt.store.writeback(rt.principal, scope=rt.settings.scope) as batch:
        return batch.append(draft)


def give_feedback(rt: Runtime, session: str, *, good: bool, note: str = "", by: str = "") -> str:
    """Keep a person's word on a session; a bad one is an event too. Returns the page of the feedback.

    The last word on a session counts as its outcome from then on, whatever its log says.

    Raises:
        NotFound: there is no such session.
        MemstoreError: it cannot be kept.
    """
    page = find_session(rt, session)
    content: dict[str, JsonValue] = {"session": page.id, "good": good, "note": note, "by": by}
    draft = PageDraft(
        id=f"{FEEDBACK}-{secrets.token_hex(12)}",
        kind=FEEDBACK,
        type=PageType.EVIDENCE,
        content=content,
        text=note,
        provenance=Provenance(source=f"feedback:{by or 'unknown'}", references=(page.id,)),
        parent=page.id,
    )
    with rt.store.writeback(rt.principal, scope=page.scope) as batch:
        kept = batch.append(draft)
        if not good:
            agent = f"{page.content['format']}/{page.content['project']}"
            batch.append(_draft(EventName.FEEDBACK, agent, "feedback", session=page.id, key=kept, note=note))
    return kept


def waiting(rt: Runtime, group: str = EVERYTHING) -> Iterator[Happened]:
    """The events that no reflection has answered yet, oldest first."""
    tag = None if group == EVERYTHING else f"group:{group}"
    pages = rt.store.find(rt.principal, scope=rt.settings.scope, kind=EVENT, state=State.PENDING, tag=tag)
    return (read_event(page) for page in pages)


def answer(batch: Writeback, events: Iterable[Happened], reflection: str) -> None:
    """Stage that a reflection rests on these events; empty where there was nothing to reflect on."""
    for event in events:
        content: dict[str, JsonValue] = _content(event) | {"reflection": reflection}
        batch.replace(event.id, content, expect=event.version, change=Change(state=State.SUCCESS))


def read_event(page: Page) -> Happened:
    """An event from its page."""
    return Happened.model_validate(
        {name: page.content[name] for name in TOLD} | {"id": page.id, "at": page.created_at, "version": page.version}
    )


def find_session(rt: Runtime, name: str) -> Page:
    """The page of a session by its page id, the beginning of that, or the key that its log gave it.

    Raises:
        NotFound: no session, or several, go by this name.
    """
    page = rt.store.get(rt.principal, name)
    if page is not None and page.kind == records.SESSION:
        return page
    found = [
        page
        for page in rt.store.find(rt.principal, scope=rt.settings.scope, kind=records.SESSION)
        if name and (page.id.startswith(name) or page.content["key"] == name)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        raise NotFound(f"{name!r} names {len(found)} sessions", "Give more of the id")
    raise NotFound(f"No session {name!r}", "`instar pages list --kind session` shows what is stored")


def _draft(name: EventName, agent: str, cause: str, *, session: str, key: str, note: str = "") -> PageDraft:
    agent, cause = agent[:LONGEST], cause[:LONGEST]
    group = group_of(agent, cause)
    unique = hashlib.sha256(f"{name}\0{group}\0{key}".encode()).hexdigest()[:20]
    return PageDraft(
        id=f"event-{unique}",
        kind=EVENT,
        type=PageType.EVIDENCE,
        content={
            "name": name.value,
            "agent": agent,
            "cause": cause,
            "group": group,
            "session": session,
            "note": note[:10_000],
        },
        state=State.PENDING,
        provenance=Provenance(source="events", references=(session,) if session else ()),
        tags=(f"group:{group}", f"event:{name.value}"),
    )


def _content(event: Happened) -> dict[str, JsonValue]:
    return {name: str(getattr(event, name)) for name in TOLD}
