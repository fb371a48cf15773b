"""Reads `general-agentbench`: `traces/X.json` with `evaluations/X.json` beside them, in a folder or an archive.

Read are the `messages` of a trace, which are complete; its `steps` and `rounds` repeat parts of them. Tool names stay
as the agent called them, with the domain's prefix. The project is "benchmark/domain".
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import JsonValue

from instar.engine.importers.chat import read_messages
from instar.engine.importers.companions import EVALUATIONS, evaluation_id
from instar.engine.importers.errors import MalformedRecord
from instar.engine.importers.jsontext import mapping, moment, sequence, text_field
from instar.engine.importers.protocol import Context
from instar.engine.importers.reading import Heading, Record, read_each
from instar.engine.importers.records import Imported, Skipped
from instar.engine.importers.streams import Member
from instar.engine.importers.transcript import Transcript
from instar.engine.importers.values import Value
from instar.engine.session import Outcome


class GeneralAgentBench:
    """The reader of `general-agentbench`."""

    name = "general-agentbench"

    def recognises(self, value: JsonValue) -> bool:
        """A trace, or the evaluation of one."""
        return _is_trace(mapping(value)) or _is_evaluation(mapping(value))

    def read(self, values: Iterator[Value], member: Member, context: Context) -> Iterator[Imported | Skipped]:
        """One session per trace; an evaluation in its place was used already."""

        def build(value: JsonValue, transcript: Transcript, heading: Heading) -> None:
            _build(mapping(value), transcript, heading)
            heading.outcome = context.companions.outcome(member) or Outcome()

        in_place = (value for value in values if not _used_already(mapping(value.json), member))
        return read_each(in_place, member, context, name=self.name, build=build)


def _build(record: Record, transcript: Transcript, heading: Heading) -> None:
    if not _is_trace(record):
        raise MalformedRecord("an evaluation outside of a folder of evaluations")
    trace = mapping(record.get("trace"))
    read_messages(sequence(trace.get("messages")), transcript)
    if not transcript.steps:
        error = text_field(trace, "error") or text_field(record, "error")
        raise MalformedRecord(f"a trace without messages{f' ({error[:200]})' if error else ''}")
    digest = transcript.digest()
    heading.task = text_field(record, "task_id") or transcript.request() or digest
    heading.key = f"{heading.task}.{digest[:8]}"
    heading.project = "/".join(filter(None, (text_field(record, "benchmark"), text_field(record, "domain"))))
    heading.started_at = moment(trace.get("start_time"))


def _used_already(record: Record, member: Member) -> bool:
    return not _is_trace(record) and bool(evaluation_id(record)) and member.lies_in(EVALUATIONS)


def _is_trace(record: Record) -> bool:
    return isinstance(mapping(record.get("trace")).get("messages"), list)


def _is_evaluation(record: Record) -> bool:
    known = {"benchmark", "reward_info", "evaluation", "termination_reason"}
    return bool(evaluation_id(record)) and not known.isdisjoint(record)
