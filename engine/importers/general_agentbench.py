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
from instar.engine.importers.records import Imported, Skipped
from instar.engine.importers.streams import Member
from instar.engine.importers.transcript import Transcript, remarks
from instar.engine.importers.values import Value
from instar.engine.session import Outcome, Session


class GeneralAgentBench:
    """The reader of `general-agentbench`."""

    name = "general-agentbench"

    def recognises(self, value: JsonValue) -> bool:
        """A trace, or the evaluation of one."""
        return _is_trace(mapping(value)) or _is_evaluation(mapping(value))

    def read(self, values: Iterator[Value], member: Member, context: Context) -> Iterator[Imported | Skipped]:
        """One session per trace; an evaluation in its place was used already."""
        for value in values:
            record = mapping(value.json)
            position = member.position(value.place)
            if not _is_trace(record):
                if not (evaluation_id(record) and member.folder.endswith(EVALUATIONS)):
                    yield Skipped(member.file, position, "an evaluation outside of a folder of evaluations")
                continue
            transcript = Transcript(depth=context.limits.depth)
            try:
                session = self._session(record, transcript, member, context)
            except MalformedRecord as error:
                yield Skipped(member.file, position, error.reason)
                continue
            yield from remarks(transcript, member.file, position)
            yield Imported(session, member.file, position)

    def finish(self) -> Iterator[Imported | Skipped]:
        """Nothing spans files."""
        yield from ()

    def _session(
        self, record: dict[str, JsonValue], transcript: Transcript, member: Member, context: Context
    ) -> Session:
        trace = mapping(record.get("trace"))
        read_messages(sequence(trace.get("messages")), transcript)
        if not transcript.steps:
            error = text_field(trace, "error") or text_field(record, "error")
            raise MalformedRecord(f"a trace without messages{f' ({error[:200]})' if error else ''}")
        project = "/".join(filter(None, (text_field(record, "benchmark"), text_field(record, "domain"))))
        digest = transcript.digest()
        task = text_field(record, "task_id") or transcript.request() or digest
        return Session(
            key=f"{task}.{digest[:8]}",
            format=self.name,
            project=project,
            task=task,
            steps=transcript.steps,
            outcome=context.companions.outcome(member) or Outcome(),
            tools=context.companions.tools_for(member, transcript.tools),
            source=member.name,
            started_at=moment(trace.get("start_time")) or transcript.started_at,
        )


def _is_trace(record: dict[str, JsonValue]) -> bool:
    return isinstance(mapping(record.get("trace")).get("messages"), list)


def _is_evaluation(record: dict[str, JsonValue]) -> bool:
    known = {"benchmark", "reward_info", "evaluation", "termination_reason"}
    return bool(evaluation_id(record)) and not known.isdisjoint(record)
