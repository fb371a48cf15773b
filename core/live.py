"""Live sessions: what a running agent does, event by event, becomes pages of its session.

An event is first a line of the spool, then pages. Page ids follow from the ids of the events, so that feeding an
event twice records it once.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from pydantic import JsonValue

from instar.memstore import (
    Harness,
    InvalidRequest,
    PageDraft,
    PageType,
    Principal,
    Provenance,
    Rejected,
    State,
    Store,
)

LONGEST = 1_000_000
"""Characters of a single value or text; what is longer is cut, and says so."""
TOOL_CALL, MESSAGE, OUTCOME = "tool-call", "message", "outcome"
LIVE = "live"
_SEGMENT = re.compile(r"[^A-Za-z0-9_.-]+")
_LATEST = 253_402_300_799.0


class Kind(StrEnum):
    """What happened."""

    START = "start"
    CALL = "call"
    RESULT = "result"
    MESSAGE = "message"
    STANDING = "standing"
    """A rule, a role or a preference that holds for the session."""
    PLAN = "plan"
    COMPACT = "compact"
    OUTCOME = "outcome"
    FEEDBACK = "feedback"
    """What a person thinks of the session."""
    END = "end"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened in a session."""

    id: str
    at: datetime
    agent: str
    session: str
    project: str
    kind: Kind
    fields: Mapping[str, JsonValue]

    @property
    def run(self) -> str:
        """The session's id in the store."""
        return run_id(self.agent, self.project, self.session)

    def text(self, name: str) -> str:
        """A field as text; empty where it is missing or of another type."""
        value = self.fields.get(name)
        return value if isinstance(value, str) else ""


def run_id(agent: str, project: str, session: str) -> str:
    """The id of a live session: the same whenever it is resumed, and safe as part of a scope."""
    return f"{LIVE}-{hashlib.sha256(chr(0).join((agent, project, session)).encode()).hexdigest()[:12]}"


def project_scope(root: str, project: str) -> str:
    """The scope that the sessions of a project share."""
    segments = [_SEGMENT.sub("-", part).strip("-.") for part in project.split("/")]
    return "/".join([root, *(segment[:100] for segment in segments if segment)])[:400].rstrip("/")


def live_scope(root: str, project: str, run: str) -> str:
    """The scope of one live session; its plan and its messages are nobody else's."""
    return f"{project_scope(root, project)}/{run}"


def read_event(line: str) -> Event:
    """An event from its line.

    Raises:
        ValueError: it is not an event.
    """
    try:
        record = json.loads(line)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(record, dict):
        raise ValueError("not an object")
    try:
        names = {name: record.pop(name) for name in ("id", "agent", "session", "project")}
        at, kind = record.pop("at"), Kind(record.pop("event"))
    except KeyError as error:
        raise ValueError(f"no {error}") from None
    if not all(isinstance(value, str) for value in names.values()) or not names["id"].isalnum():
        raise ValueError("a name is not text")
    if not isinstance(at, int | float) or isinstance(at, bool) or not 0 <= at < _LATEST or math.isnan(at):
        raise ValueError("no time")
    return Event(**names, at=datetime.fromtimestamp(at, UTC), kind=kind, fields=record)


def read_lines(descriptor: int) -> Iterator[tuple[str, Event | None]]:
    """Every line of an open file of the spool, with its event; None for a line that is none."""
    with os.fdopen(os.dup(descriptor), encoding="utf-8", errors="replace") as file:
        file.seek(0)
        for line in file:
            if not line.strip():
                continue
            try:
                event = read_event(line)
            except ValueError:
                yield line, None
                continue
            yield line, event


def shortened(value: JsonValue) -> JsonValue:
    """A value that a page can hold: one that is too long is cut, and says so."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) <= LONGEST:
        return value
    return {"truncated": True, "characters": len(text), "begins": text[:LONGEST]}


@dataclass(frozen=True, slots=True)
class Fed:
    """What became of events: calls without a result that were not recorded yet, and how many were refused."""

    open: tuple[Event, ...] = ()
    refused: int = 0


class Feeder:
    """Feeds the events of one session into its harness, each exactly once."""

    def __init__(self, harness: Harness, store: Store, by: Principal, *, scope: str, run: str) -> None:
        self._harness, self._store, self._by = harness, store, by
        self._scope, self._run = scope, run
        pending = store.find(by, scope=scope, session=run, kind=TOOL_CALL, state=State.PENDING)
        self._pending = {str(page.content.get("call")) for page in pending}
        """Calls that were recorded before they answered."""

    def feed(self, events: Iterable[Event], *, final: bool) -> list[Event]:
        """Record events in order; returns the calls that have no result yet.

        With `final` nothing will follow that this caller knows of: such calls are recorded as pending.

        Raises:
            Rejected: an event cannot be recorded; those after it were not either.
            StoreUnavailable: the store cannot be written; what was not recorded can be fed again.
        """
        drafts: list[PageDraft] = []
        calls: dict[str, Event] = {}
        late: list[Event] = []
        for event in events:
            match event.kind:
                case Kind.CALL:
                    calls[event.text("call")] = event
                case Kind.RESULT if (call := calls.pop(event.text("call"), None)) is not None:
                    drafts += self._finished(call, event)
                case Kind.RESULT:
                    late.append(event)
                case Kind.PLAN:
                    self._record(drafts)
                    drafts = []
                    self._plan(event)
                case Kind.MESSAGE | Kind.STANDING | Kind.OUTCOME:
                    drafts.append(_DRAFTS[event.kind](event))
                case Kind.COMPACT:
                    self._record(drafts)
                    drafts = []
                    self._harness.compact()
                case Kind.START | Kind.FEEDBACK | Kind.END:
                    pass
        self._record(drafts)
        for event in late:
            self._answer(event)
        if not final:
            return list(calls.values())
        for call in calls.values():
            self._begin(call)
        return []

    def feed_fit(self, events: Sequence[Event], *, final: bool) -> Fed:
        """As `feed`, but an event that the store refuses takes no other with it. The journal says why.

        Raises:
            StoreUnavailable: the store cannot be written; what was not recorded can be fed again.
        """
        try:
            return Fed(tuple(self.feed(events, final=final)))
        except Rejected:
            return self._feed_each(events, final=final)

    def _feed_each(self, events: Sequence[Event], *, final: bool) -> Fed:
        results = {event.text("call"): event for event in events if event.kind is Kind.RESULT}
        calls = {event.text("call") for event in events if event.kind is Kind.CALL}
        left: list[Event] = []
        refused = 0
        for event in events:
            name = event.text("call")
            if event.kind is Kind.RESULT and name in calls:
                continue
            together = [event, results[name]] if event.kind is Kind.CALL and name in results else [event]
            try:
                left += self.feed(together, final=final)
            except Rejected:
                refused += len(together)
        return Fed(tuple(left), refused)

    def _record(self, drafts: Sequence[PageDraft]) -> None:
        if drafts:
            self._harness.record(drafts)

    def _finished(self, call: Event, result: Event) -> list[PageDraft]:
        if call.text("call") in self._pending:
            self._answer(result)
            return []
        return [call_draft(call, result)]

    def _begin(self, call: Event) -> None:
        name = call.text("call")
        if name in self._pending:
            return
        self._harness.tool_start(call.text("tool"), _arguments(call), call_id=name)
        self._pending.add(name)

    def _answer(self, result: Event) -> None:
        """A result whose call was recorded earlier; one of a call that nobody saw has nothing to belong to."""
        name = result.text("call")
        if name not in self._pending:
            return
        self._harness.tool_result(name, shortened(result.fields.get("value")), error=result.text("error"))
        self._pending.discard(name)

    def _plan(self, event: Event) -> None:
        page_id, fields = f"{self._run}.plan", event.fields.get("fields")
        if not isinstance(fields, dict):
            return
        draft = PageDraft(id=page_id, kind="plan", type=PageType.PLAN, content=fields, created_at=event.at)
        known = self._store.get(self._by, page_id)
        if known is None:
            self._harness.record([draft])
        elif known.content != {**known.content, **fields}:
            try:
                self._harness.revise(page_id, fields)
            except InvalidRequest:  # it was hidden by a rollback
                return


def call_draft(call: Event, result: Event) -> PageDraft:
    """The page of a call with its result."""
    error = result.text("error")
    content: dict[str, JsonValue] = {
        "tool": call.text("tool"),
        "arguments": _arguments(call),
        "call": call.text("call"),
        "status": "error" if error else "ok",
        "value": shortened(result.fields.get("value")),
        **({"error": error[:LONGEST]} if error else {}),
        **{name: call.fields[name] for name in ("turn",) if name in call.fields},
    }
    return PageDraft(
        id=f"{call.run}.{call.id}",
        kind=TOOL_CALL,
        type=PageType.EVIDENCE,
        content=content,
        state=State.ERROR if error else State.SUCCESS,
        provenance=Provenance(f"{LIVE}:{call.agent}"),
        tags=(f"tool:{call.text('tool')}"[:200],),
        created_at=call.at,
    )


def _arguments(call: Event) -> dict[str, JsonValue]:
    arguments = call.fields.get("arguments")
    if not isinstance(arguments, dict):
        return {}
    short = shortened(arguments)
    return short if isinstance(short, dict) else {}


def _message(event: Event) -> PageDraft:
    text, page_id = event.text("text"), f"{event.run}.{event.id}"
    return PageDraft(
        id=page_id,
        kind=MESSAGE,
        type=PageType.CONVERSATION,
        content={"speaker": event.text("speaker") or "assistant", "span": page_id},
        text=text if len(text) <= LONGEST else f"{text[:LONGEST]}\n[cut here: {len(text)} characters]",
        provenance=Provenance(f"{LIVE}:{event.agent}"),
        created_at=event.at,
    )


def _standing(event: Event) -> PageDraft:
    kind = {"bootstrap": PageType.BOOTSTRAP, "preference": PageType.PREFERENCE}.get(
        event.text("type"), PageType.CONSTRAINT
    )
    text = event.text("text")[:LONGEST]
    # Said again at every start: the same words are the same page.
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return PageDraft(id=f"{event.run}.{kind.value}-{digest}", kind=kind.value, type=kind, text=text)


def _outcome(event: Event) -> PageDraft:
    content: dict[str, JsonValue] = {name: event.text(name) for name in ("status", "basis", "note")}
    return PageDraft(
        id=f"{event.run}.{event.id}", kind=OUTCOME, type=PageType.EVIDENCE, content=content, created_at=event.at
    )


_DRAFTS = {Kind.MESSAGE: _message, Kind.STANDING: _standing, Kind.OUTCOME: _outcome}
