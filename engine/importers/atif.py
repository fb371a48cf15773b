"""Reads `atif`: the Agent Trajectory Interchange Format, versions 1.0 to 1.8.

Sub-agents' trajectories inside a trajectory are sessions of their own. Steps that were copied from an earlier
trajectory for context did not happen in this one: they are said by the system. The format has no mark for failures;
results are judged by what they say in a structured way.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import JsonValue

from instar.engine.importers.chat import content_text, read_outcome, read_schemas
from instar.engine.importers.errors import MalformedRecord
from instar.engine.importers.jsontext import mapping, moment, sequence, text_field
from instar.engine.importers.protocol import Context
from instar.engine.importers.reading import Heading, Record, read_each
from instar.engine.importers.records import Imported, Skipped
from instar.engine.importers.streams import Member
from instar.engine.importers.transcript import Transcript
from instar.engine.importers.values import Value
from instar.engine.session import Origin, Speaker

_SPEAKERS = {"system": Speaker.SYSTEM, "user": Speaker.USER, "agent": Speaker.ASSISTANT}
_DEEPEST = 8


class Atif:
    """The reader of `atif`."""

    name = "atif"

    def recognises(self, value: JsonValue) -> bool:
        """A trajectory with its schema's version."""
        record = mapping(value)
        return text_field(record, "schema_version").startswith("ATIF-") and isinstance(record.get("steps"), list)

    def read(self, values: Iterator[Value], member: Member, context: Context) -> Iterator[Imported | Skipped]:
        """One session per trajectory, those of sub-agents included."""
        every = (one for value in values for one in _trajectories(value, value.json, parent="", depth=0))
        return read_each(every, member, context, name=self.name, build=_build)


def _trajectories(value: Value, trajectory: JsonValue, *, parent: str, depth: int) -> Iterator[Value]:
    """A trajectory, and those inside it, each with the key of what it is part of."""
    record = mapping(trajectory)
    yield Value(value.place, {"trajectory": trajectory, "parent": parent}, value.size)
    if depth < _DEEPEST:
        key = "/".join(filter(None, (parent, text_field(record, "session_id", "trajectory_id"))))
        for inner in sequence(record.get("subagent_trajectories")):
            yield from _trajectories(value, inner, parent=key or "-", depth=depth + 1)


def _build(value: JsonValue, transcript: Transcript, heading: Heading) -> None:
    record, parent = mapping(mapping(value).get("trajectory")), text_field(mapping(value), "parent")
    if not isinstance(record.get("steps"), list):
        raise MalformedRecord("not a trajectory with steps")
    for number, step in enumerate(sequence(record.get("steps")), start=1):
        _read_step(mapping(step), transcript, number)
    extra = mapping(record.get("extra"))
    own = text_field(record, "trajectory_id", "session_id") if parent else text_field(record, "session_id")
    own = own or text_field(record, "trajectory_id")
    heading.key = "/".join(filter(None, (parent, own or transcript.digest()))) if parent else own
    heading.project = text_field(extra, "project")
    heading.task = text_field(extra, "task", "task_id")
    outcome = mapping(extra.get("outcome"))
    heading.outcome = read_outcome(outcome or extra, text_field(outcome, "basis"))
    heading.tools = read_schemas(mapping(record.get("agent")).get("tool_definitions"))
    heading.origin = Origin.SUBAGENT if parent else _ORIGINS.get(text_field(extra, "origin"), Origin.INTERACTIVE)


_ORIGINS = {origin.value: origin for origin in Origin}


def _read_step(step: Record, transcript: Transcript, number: int) -> None:
    at = moment(step.get("timestamp"))
    speaker = _SPEAKERS.get(text_field(step, "source"))
    if speaker is None:
        transcript.left_out["steps without a known source"] += 1
        return
    if step.get("is_copied_context") is True:
        transcript.say(Speaker.SYSTEM, content_text(step.get("message")), at)
        return
    transcript.say(speaker, content_text(step.get("message")), at)
    for call in map(mapping, sequence(step.get("tool_calls"))):
        call_id, name = text_field(call, "tool_call_id"), text_field(call, "function_name")
        transcript.call(name, call.get("arguments"), turn=f"step-{number}", recorded_id=call_id, at=at)
    for result in map(mapping, sequence(mapping(step.get("observation")).get("results"))):
        content = content_text(result.get("content"))
        call_id = text_field(result, "source_call_id")
        if not call_id:  # what the environment said without being asked
            transcript.say(Speaker.SYSTEM, content, at)
            continue
        extra = mapping(result.get("extra"))
        stated = extra.get("is_error")
        flag = stated if isinstance(stated, bool) else None
        transcript.answer(content, recorded_id=call_id, flag=flag, refused=extra.get("refused") is True, at=at)
