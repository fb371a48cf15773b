"""The two ways in which files hold sessions: a session in each value, or one session in all of a file's lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from pydantic import JsonValue

from instar.engine.importers.errors import MalformedRecord
from instar.engine.importers.jsontext import mapping, text_field
from instar.engine.importers.protocol import Context
from instar.engine.importers.records import Imported, Skipped
from instar.engine.importers.streams import Member
from instar.engine.importers.transcript import Transcript, remarks
from instar.engine.importers.values import Value
from instar.engine.session import Origin, Outcome, Session, ToolSchema

Record: TypeAlias = dict[str, JsonValue]


@dataclass(slots=True)
class Heading:
    """What the records say about the session as a whole, and where in a turn the reading is."""

    key: str = ""
    project: str = ""
    task: str = ""
    origin: Origin = Origin.INTERACTIVE
    outcome: Outcome = field(default_factory=Outcome)
    tools: Sequence[ToolSchema] = ()
    started_at: datetime | None = None
    turn: int = 0
    calling: bool = False
    """Whether the last record was a call: for logs that do not say which calls belong together."""

    def next_call(self) -> str:
        """The turn of a call, where calls without anything between them were made together."""
        if not self.calling:
            self.turn += 1
            self.calling = True
        return f"turn-{self.turn}"


_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")

Build: TypeAlias = Callable[[JsonValue, Transcript, Heading], None]
"""Reads one value into a transcript.

Raises:
    MalformedRecord: the value is no session.
"""

Handle: TypeAlias = Callable[[Record, Transcript, Heading], bool]
"""Reads one record of a log into the transcript; False where its type is unknown.

Raises:
    MalformedRecord: the record breaks the rules of its type.
"""


def read_each(
    values: Iterator[Value], member: Member, context: Context, *, name: str, build: Build
) -> Iterator[Imported | Skipped]:
    """One session in each value."""
    for value in values:
        position = member.position(value.place)
        transcript, heading = Transcript(depth=context.limits.depth), Heading()
        try:
            build(value.json, transcript, heading)
        except MalformedRecord as error:
            yield Skipped(member.file, position, error.reason)
            continue
        yield from conclude(transcript, heading, member, context, name=name, position=position)


def read_log(
    values: Iterator[Value], member: Member, context: Context, *, name: str, handle: Handle
) -> Iterator[Imported | Skipped]:
    """One session in all the records of a file. Records of an unknown type are reported once per type."""
    transcript, heading = Transcript(depth=context.limits.depth), Heading()
    unknown: Counter[str] = Counter()
    first_place: dict[str, str] = {}
    position = ""
    size = 0
    for value in values:
        position = position or member.position(value.place)
        size += value.size
        if size > context.limits.session_bytes:
            yield Skipped(member.file, member.position(value.place), too_long(context))
            break
        record = mapping(value.json)
        try:
            known = handle(record, transcript, heading)
        except MalformedRecord as error:
            yield Skipped(member.file, member.position(value.place), error.reason)
            continue
        if not known:
            kind = (text_field(record, "type", "role") or "without a type")[:80]
            unknown[kind] += 1
            first_place.setdefault(kind, value.place)
    for kind, count in unknown.items():
        yield Skipped(member.file, member.position(first_place[kind]), drifted(kind, count))
    yield from conclude(transcript, heading, member, context, name=name, position=position)


def folder_name(path: str) -> str:
    """The last folder of a path of any system: how a project is called."""
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2]


def id_in(name: str) -> str:
    """The name of a file or folder where it is made of an id, so that it names the session while it grows; or ""."""
    return name if _UUID.search(name) else ""


def drifted(kind: str, count: int) -> str:
    """The reason for leaving out records of an unknown type."""
    return f"unknown record type {kind!r}: the format has drifted ({count} in this file)"


def too_long(context: Context) -> str:
    """The reason for cutting a log that is one session."""
    return f"a session of more than {context.limits.session_bytes} bytes: the rest is left out"


def conclude(
    transcript: Transcript, heading: Heading, member: Member, context: Context, *, name: str, position: str
) -> Iterator[Imported | Skipped]:
    """The session that was read, after what of it had to be left out."""
    yield from remarks(transcript, member.file, position)
    if not transcript.steps:
        yield Skipped(member.file, position or member.position("file"), "a session without messages")
        return
    key = heading.key or transcript.digest()
    session = Session(
        key=key,
        format=name,
        project=heading.project,
        task=heading.task or transcript.request() or key,
        steps=transcript.steps,
        outcome=heading.outcome,
        origin=heading.origin,
        tools=heading.tools or context.companions.tools_for(member, transcript.tools),
        source=member.name,
        started_at=heading.started_at or transcript.started_at,
    )
    yield Imported(session, member.file, position)
