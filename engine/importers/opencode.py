"""Reads `opencode`: the storage of OpenCode, a folder with one file for each session, message and part of a message.

The files of a session lie far apart, so that all of them are held until the last named file was read; together they
are bounded like one long session. A tool that ended with an exit code other than 0 failed, whatever its state says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue

from instar.engine.importers.errors import MalformedRecord
from instar.engine.importers.jsontext import mapping, moment, text_field
from instar.engine.importers.protocol import Context
from instar.engine.importers.reading import Heading, Record, conclude, folder_name, too_long
from instar.engine.importers.records import Imported, Skipped
from instar.engine.importers.streams import Member
from instar.engine.importers.transcript import Transcript
from instar.engine.importers.values import Value
from instar.engine.session import Origin, Speaker

_SPEAKERS = {"user": Speaker.USER, "assistant": Speaker.ASSISTANT, "system": Speaker.SYSTEM}
_SILENT = frozenset(
    {"reasoning", "step-start", "step-finish", "patch", "compaction", "snapshot", "agent", "retry", "subtask"}
)
_PARTS = _SILENT | {"text", "tool", "file"}


@dataclass(slots=True)
class _Found:
    """What was read of one session so far."""

    member: Member
    place: str
    session: Record = field(default_factory=dict)
    messages: list[Record] = field(default_factory=list)


class OpenCode:
    """The reader of `opencode`."""

    name = "opencode"

    def __init__(self) -> None:
        self._context = Context()
        self._sessions: dict[str, _Found] = {}
        self._parts: dict[str, list[Record]] = {}
        self._size = 0
        self._last: Path | None = None

    def recognises(self, value: JsonValue) -> bool:
        """A session, a message or a part."""
        record = mapping(value)
        return isinstance(record.get("id"), str) and bool(_kind(record))

    def read(self, values: Iterator[Value], member: Member, context: Context) -> Iterator[Imported | Skipped]:
        """Keep what is read; the sessions are yielded when all files were seen."""
        self._context, self._last = context, member.file
        for value in values:
            record = mapping(value.json)
            kind = _kind(record)
            self._size += value.size
            if self._size > context.limits.session_bytes:
                yield Skipped(member.file, member.position(value.place), too_long(context))
                return
            if kind == "part":
                message = text_field(record, "messageID") or member.folder_name
                self._parts.setdefault(message, []).append(record)
            elif kind:
                key = text_field(record, "sessionID") if kind == "message" else text_field(record, "id")
                found = self._sessions.setdefault(key, _Found(member, value.place))
                if kind == "session":
                    found.session, found.member, found.place = record, member, value.place
                else:
                    found.messages.append(record)
            else:
                yield Skipped(member.file, member.position(value.place), "neither a session, a message nor a part")

    def finish(self) -> Iterator[Imported | Skipped]:
        """Yield every session with its messages in order of time."""
        for key, found in self._sessions.items():
            yield from self._session(key, found)
        if self._parts and self._last is not None:
            lost = sum(map(len, self._parts.values()))
            yield Skipped(self._last, "folder", f"parts of messages that are not there: {lost}")
        self._sessions.clear()
        self._parts.clear()

    def _session(self, key: str, found: _Found) -> Iterator[Imported | Skipped]:
        transcript = Transcript(depth=self._context.limits.depth)
        created = {id(message): moment(mapping(message.get("time")).get("created")) for message in found.messages}
        found.messages.sort(key=lambda message: (str(created[id(message)] or ""), text_field(message, "id")))
        for message in found.messages:
            speaker = _SPEAKERS.get(text_field(message, "role"), Speaker.SYSTEM)
            for part in self._parts.pop(text_field(message, "id"), []):
                try:
                    _read_part(part, speaker, text_field(message, "id"), transcript)
                except MalformedRecord as error:
                    transcript.left_out[error.reason] += 1
        heading = Heading(
            key=key,
            project=folder_name(text_field(found.session, "directory")),
            origin=Origin.SUBAGENT if text_field(found.session, "parentID") else Origin.INTERACTIVE,
            started_at=moment(mapping(found.session.get("time")).get("created")),
        )
        position = found.member.position(found.place)
        yield from conclude(transcript, heading, found.member, self._context, name=self.name, position=position)


def _kind(record: Record) -> str:
    if "projectID" in record and "directory" in record:
        return "session"
    if isinstance(record.get("sessionID"), str) and text_field(record, "role") in _SPEAKERS:
        return "message"
    known = text_field(record, "type") in _PARTS
    return "part" if known and ("messageID" in record or "start" in mapping(record.get("time"))) else ""


def _read_part(part: Record, speaker: Speaker, turn: str, transcript: Transcript) -> None:
    kind = text_field(part, "type")
    state = mapping(part.get("state"))
    time = mapping(state.get("time")) or mapping(part.get("time"))
    at = moment(time.get("start"))
    if kind == "text":
        transcript.say(Speaker.SYSTEM if part.get("synthetic") is True else speaker, text_field(part, "text"), at)
    elif kind == "file":
        transcript.say(speaker, f"[file {text_field(part, 'filename')}]", at)
    elif kind == "tool":
        call_id = text_field(part, "callID", "id")
        transcript.call(text_field(part, "tool"), state.get("input"), turn=turn, recorded_id=call_id, at=at)
        ended = text_field(state, "status")
        if ended not in ("pending", "running"):
            code = mapping(state.get("metadata")).get("exit")
            failed = ended == "error" or (isinstance(code, int) and code != 0)
            result = state.get("error") if ended == "error" else state.get("output")
            transcript.answer(result, recorded_id=call_id, flag=failed, at=moment(time.get("end")))
