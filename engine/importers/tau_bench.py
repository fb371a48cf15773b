"""Reads `tau-bench`: results of that benchmark, `{"task_id", "reward", "info", "traj", "trial"}`.

The file does not say its domain: the project is read from the policy that opens every trajectory ("# Airline Agent
Policy" → "tau-bench/airline"). The key is task, trial and a digest of the trajectory, since every model that was
benchmarked numbers its trials from 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic import JsonValue

from instar.engine.importers.chat import is_message, read_messages, read_outcome
from instar.engine.importers.errors import MalformedRecord
from instar.engine.importers.jsontext import mapping, sequence, text_field
from instar.engine.importers.protocol import Context
from instar.engine.importers.reading import Heading, read_each
from instar.engine.importers.records import Imported, Skipped
from instar.engine.importers.streams import Member
from instar.engine.importers.transcript import Transcript
from instar.engine.importers.values import Value
from instar.engine.session import Message, Speaker

_POLICY = re.compile(r"\s*# (\w{1,40}) agent policy\b", re.IGNORECASE)


class TauBench:
    """The reader of `tau-bench`."""

    name = "tau-bench"

    def recognises(self, value: JsonValue) -> bool:
        """A record with a trajectory and a reward."""
        return bool(_trajectory(value)) and "reward" in mapping(value)

    def read(self, values: Iterator[Value], member: Member, context: Context) -> Iterator[Imported | Skipped]:
        """One session per record."""
        return read_each(values, member, context, name=self.name, build=_build)


def _build(value: JsonValue, transcript: Transcript, heading: Heading) -> None:
    record = mapping(value)
    read_messages(_trajectory(record), transcript)
    if not transcript.steps:
        raise MalformedRecord("a record without a trajectory")
    digest = transcript.digest()
    heading.task = text_field(record, "task_id") or transcript.request() or digest
    heading.key = f"task-{heading.task}.trial-{text_field(record, 'trial') or '0'}.{digest[:8]}"
    heading.project = _project(transcript)
    heading.outcome = read_outcome(record, "reward")


def _trajectory(value: JsonValue) -> list[JsonValue]:
    found = sequence(mapping(value).get("traj"))
    return found if found and is_message(found[0]) else []


def _project(transcript: Transcript) -> str:
    first = transcript.steps[0]
    policy = isinstance(first, Message) and first.speaker is Speaker.SYSTEM and _POLICY.match(first.text)
    return f"tau-bench/{policy.group(1).lower()}" if policy else "tau-bench"
