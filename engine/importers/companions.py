"""What lies beside sessions and belongs to them: evaluations, tool schemas, the parts of a continued session.

Collected in a first pass over the named paths, before any session is read, because an archive may hold an evaluation
before or after its trace. Only what was named is looked at, never its neighbours.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Set
from dataclasses import dataclass, field

from pydantic import JsonValue

from instar.engine.importers.chat import read_outcome, read_schemas
from instar.engine.importers.jsontext import mapping, sequence, text_field
from instar.engine.importers.records import MIB, ImportLimits, Skipped
from instar.engine.importers.splitting import read_values
from instar.engine.importers.streams import READ_ERRORS, Member, members
from instar.engine.importers.values import Problem, Value
from instar.engine.importers.walk import Found
from instar.engine.session import Outcome, ToolSchema

EVALUATIONS = "evaluations"
TRACES = "traces"
_PEEK = 4096
_SCHEMA_WORDS = (b'"parameters"', b'"inputSchema"', b'"input_schema"')
_SESSION_WORDS = (b'"sessionId"', b'"leafUuid"', b'"snapshot"')
_HEADERS = ("header.json", "_journal/start.json")
_SESSION_ID = re.compile(rb'"sessionId":\s?"([^"\\]{1,128})"')
_OVERLAP = 256
SUBAGENTS = "subagents"
SUMMARY_MARK = "chat_format_version"


@dataclass(slots=True)
class Companions:
    """The findings of the first pass."""

    outcomes: dict[tuple[str, str], Outcome] = field(default_factory=dict)
    """By folder of the traces, and file name without its ending."""
    tools: dict[str, list[tuple[ToolSchema, ...]]] = field(default_factory=dict)
    """Lists of tool schemas, by folder."""
    parts: Counter[str] = field(default_factory=Counter)
    """In how many files each recorded session id occurs."""
    summaries: dict[str, dict[str, JsonValue]] = field(default_factory=dict)
    """What a file beside a chat history says about its session, by folder."""
    evaluations: dict[str, dict[str, JsonValue]] = field(default_factory=dict)
    """What an archive of samples says about the evaluation as a whole, by archive."""

    def evaluation(self, member: Member) -> dict[str, JsonValue]:
        """The evaluation that a sample in an archive is part of."""
        return self.evaluations.get(str(member.file), {})

    def outcome(self, member: Member) -> Outcome | None:
        """The evaluation with the name of this trace."""
        return self.outcomes.get((member.folder, member.stem))

    def tools_for(self, member: Member, called: Set[str]) -> tuple[ToolSchema, ...]:
        """The smallest list of tool schemas in the same folder that has every called tool; empty where none has."""
        if not called:
            return ()
        fitting = [tools for tools in self.tools.get(member.folder, []) if called <= {tool.name for tool in tools}]
        return min(fitting, key=len, default=())


def survey(files: Iterator[Found | Skipped], limits: ImportLimits) -> Companions:
    """Look at every file once. What cannot be read is passed over here: the second pass reports it."""
    companions = Companions()
    for found in files:
        if isinstance(found, Skipped):
            continue
        for member in members(found, limits):
            if isinstance(member, Skipped):
                break
            try:
                _look_at(member, companions, limits)
            except READ_ERRORS:
                break
    return companions


def is_schema_list(value: JsonValue) -> bool:
    """Whether a value is a list of tool schemas and nothing else."""
    tools = sequence(value)
    return bool(tools) and len(read_schemas(tools)) == len(tools) and all(_has_parameters(tool) for tool in tools)


def _has_parameters(tool: JsonValue) -> bool:
    record = mapping(tool)
    function = mapping(record.get("function")) or record
    return "role" not in record and any(name in function for name in ("parameters", "inputSchema", "input_schema"))


def _look_at(member: Member, companions: Companions, limits: ImportLimits) -> None:
    head = member.stream.peek(_PEEK)[:_PEEK]
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if member.lies_in(EVALUATIONS):
        _evaluation(member, companions, limits)
    elif start == b"{" and SUMMARY_MARK.encode() in head:
        for value in read_values(member.stream, limits):
            if isinstance(value, Value):
                companions.summaries[member.folder] = mapping(value.json)
    elif member.inside in _HEADERS and start == b"{":
        _header(member, companions, limits)
    elif start == b"[" and b'"role"' not in head and any(word in head for word in _SCHEMA_WORDS):
        _schemas(member, companions, limits)
    elif start == b"{" and any(word in head for word in _SESSION_WORDS) and not member.lies_in(SUBAGENTS):
        companions.parts.update(_session_ids(member))


def _evaluation(member: Member, companions: Companions, limits: ImportLimits) -> None:
    for value in read_values(member.stream, limits):
        if isinstance(value, Problem):
            return
        record = mapping(value.json)
        outcome = read_outcome(mapping(record.get("reward_info")) or record, basis="evaluation")
        folder = member.folder.removesuffix(EVALUATIONS) + TRACES
        companions.outcomes[folder, member.stem] = outcome
        return


def _header(member: Member, companions: Companions, limits: ImportLimits) -> None:
    for value in read_values(member.stream, limits):
        if isinstance(value, Problem):
            return
        evaluation = mapping(mapping(value.json).get("eval"))
        if evaluation:
            companions.evaluations[str(member.file)] = evaluation


def _schemas(member: Member, companions: Companions, limits: ImportLimits) -> None:
    tools: list[JsonValue] = []
    for value in read_values(member.stream, limits):
        if isinstance(value, Problem) or not _has_parameters(value.json):
            return
        tools.append(value.json)
    if is_schema_list(tools):
        companions.tools.setdefault(member.folder, []).append(read_schemas(tools))


def _session_ids(member: Member) -> set[str]:
    found: set[str] = set()
    rest = b""
    while piece := member.stream.read(MIB):
        text = rest + piece
        found.update(name.decode("utf-8", "replace") for name in _SESSION_ID.findall(text))
        rest = text[-_OVERLAP:]
    return found


def evaluation_id(record: dict[str, JsonValue]) -> str:
    """The task that an evaluation is about; "" for a record that is none."""
    graded = any(name in record for name in ("reward", "reward_info", "evaluation", "success"))
    return text_field(record, "task_id") if graded and "trace" not in record else ""
