"""Reads `inspect-ai`: evaluation logs of Inspect, as JSON or as `.eval` archives.

Every sample is a session: its project is the evaluation's task, its task the sample's id. The outcome is the sample's
only score, where that is correct or incorrect. Texts that were moved to the attachments are put back.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import JsonValue

from instar.engine.importers.chat import read_messages
from instar.engine.importers.errors import MalformedRecord
from instar.engine.importers.jsontext import mapping, moment, sequence, text_field
from instar.engine.importers.protocol import Context
from instar.engine.importers.reading import Heading, Record, read_each
from instar.engine.importers.records import Imported, Skipped
from instar.engine.importers.streams import Member
from instar.engine.importers.transcript import Transcript
from instar.engine.importers.values import Value
from instar.engine.session import Outcome, OutcomeStatus

_ATTACHMENT = "attachment://"
_SCORES = {"C": OutcomeStatus.SUCCESS, "I": OutcomeStatus.FAILURE}
_LOG = frozenset({"version", "eval", "plan"})
_SUMMARY = frozenset({"id", "epoch", "input", "scores"})
_REDUCTION = frozenset({"scorer", "samples"})


class InspectAI:
    """The reader of `inspect-ai`."""

    name = "inspect-ai"

    def recognises(self, value: JsonValue) -> bool:
        """A log, a sample of one, or what an archive holds beside its samples."""
        record = mapping(value)
        return record.keys() >= _LOG or _is_sample(record) or record.keys() >= _SUMMARY or record.keys() == _REDUCTION

    def read(self, values: Iterator[Value], member: Member, context: Context) -> Iterator[Imported | Skipped]:
        """One session per sample."""
        evaluation = context.companions.evaluation(member)

        def build(value: JsonValue, transcript: Transcript, heading: Heading) -> None:
            entry = mapping(value)
            _build(mapping(entry.get("sample")), mapping(entry.get("eval")) or evaluation, transcript, heading)

        return read_each(_samples(values, member), member, context, name=self.name, build=build)


def _is_sample(record: Record) -> bool:
    return isinstance(record.get("messages"), list) and "epoch" in record and "id" in record and "target" in record


def _samples(values: Iterator[Value], member: Member) -> Iterator[Value]:
    """Every sample with the evaluation it is part of; what lies beside the samples in an archive has none."""
    for value in values:
        record = mapping(value.json)
        if _is_sample(record):
            yield Value(value.place, {"sample": record}, value.size)
            continue
        samples = sequence(record.get("samples")) if record.keys() >= _LOG else []
        for number, sample in enumerate(samples, start=1):
            entry: JsonValue = {"sample": sample, "eval": record.get("eval")}
            yield Value(f"{value.place} sample {number}", entry, value.size)
        if not samples and not member.inside:
            yield Value(value.place, {}, value.size)


def _build(sample: Record, evaluation: Record, transcript: Transcript, heading: Heading) -> None:
    if not _is_sample(sample):
        raise MalformedRecord("no sample with messages")
    attachments = mapping(sample.get("attachments"))
    messages = [_message(mapping(message), attachments) for message in sequence(sample.get("messages"))]
    read_messages(messages, transcript)
    heading.project = text_field(evaluation, "task")
    heading.task = text_field(sample, "id")
    run = text_field(evaluation, "run_id") or transcript.digest()[:8]
    heading.key = text_field(sample, "uuid") or f"{heading.task}.epoch-{text_field(sample, 'epoch')}.{run}"
    heading.started_at = moment(evaluation.get("created"))
    heading.outcome = _outcome(mapping(sample.get("scores")))


def _message(message: Record, attachments: Record) -> Record:
    """A chat message in the form that others write, with its texts in place."""
    changed = dict(message)
    content = message.get("content")
    if isinstance(content, str):
        changed["content"] = _put_back(content, attachments)
    elif isinstance(content, list):
        parts = [dict(mapping(part)) for part in content]
        for part in parts:
            if isinstance(text := part.get("text"), str):
                part["text"] = _put_back(text, attachments)
        changed["content"] = [part for part in parts if part.get("type") != "reasoning"]
    changed["tool_calls"] = [
        {"id": call.get("id"), "function": {"name": call.get("function"), "arguments": call.get("arguments")}}
        for call in map(mapping, sequence(message.get("tool_calls")))
    ]
    if message.get("role") == "tool":
        error = mapping(message.get("error"))
        changed["is_error"] = bool(error)
        changed["name"] = message.get("function")
        if error and not text_field(changed, "content"):
            changed["content"] = text_field(error, "message")
    return changed


def _put_back(text: str, attachments: Record) -> str:
    if not text.startswith(_ATTACHMENT):
        return text
    return text_field(attachments, text.removeprefix(_ATTACHMENT)) or text


def _outcome(scores: Record) -> Outcome:
    if len(scores) != 1:
        return Outcome()
    [(scorer, score)] = scores.items()
    value = mapping(score).get("value")
    status = _SCORES.get(value, OutcomeStatus.UNKNOWN) if isinstance(value, str) else OutcomeStatus.UNKNOWN
    reward = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    return Outcome(status, f"score {scorer[:80]}", reward)
