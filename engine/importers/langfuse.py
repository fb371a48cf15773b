"""Reads `langfuse`: traces exported from Langfuse, `{"trace": …, "observations": […]}`.

A trace has no end that says whether the task was done, unless a score named `success` or `reward` does.
The project is the trace's name, without an id where one is part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic import JsonValue

from instar.engine.importers.chat import read_outcome
from instar.engine.importers.errors import MalformedRecord
from instar.engine.importers.jsontext import mapping, moment, sequence, text_field
from instar.engine.importers.observations import read_observations, said_in
from instar.engine.importers.protocol import Context
from instar.engine.importers.reading import Heading, Record, read_each
from instar.engine.importers.records import Imported, Skipped
from instar.engine.importers.streams import Member
from instar.engine.importers.transcript import Transcript
from instar.engine.importers.values import Value
from instar.engine.session import Speaker

_ID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


class Langfuse:
    """The reader of `langfuse`."""

    name = "langfuse"

    def recognises(self, value: JsonValue) -> bool:
        """A trace beside its observations."""
        record = mapping(value)
        return isinstance(record.get("trace"), dict) and isinstance(record.get("observations"), list)

    def read(self, values: Iterator[Value], member: Member, context: Context) -> Iterator[Imported | Skipped]:
        """One session per trace."""

        def build(value: JsonValue, transcript: Transcript, heading: Heading) -> None:
            _build(mapping(value), transcript, heading, depth=context.limits.depth)

        return read_each(values, member, context, name=self.name, build=build)


def _build(record: Record, transcript: Transcript, heading: Heading, *, depth: int) -> None:
    trace = mapping(record.get("trace"))
    if not trace:
        raise MalformedRecord("observations without their trace")
    observations = [mapping(one) for one in sequence(record.get("observations"))]
    read_observations(observations, transcript, depth=depth)
    if not transcript.steps:
        _say_plainly(trace, transcript, depth=depth)
    heading.key = text_field(trace, "id")
    heading.project = _ID.sub("", text_field(trace, "name")).strip(" .-_")
    heading.started_at = moment(trace.get("timestamp"))
    scores: Record = {
        text_field(one, "name"): one.get("value") for one in map(mapping, sequence(trace.get("scores")))
    }
    heading.outcome = read_outcome(scores, "score")


def _say_plainly(trace: Record, transcript: Transcript, *, depth: int) -> None:
    for name, speaker in (("input", Speaker.USER), ("output", Speaker.ASSISTANT)):
        transcript.say(speaker, said_in(trace.get(name), depth=depth), moment(trace.get("timestamp")))
