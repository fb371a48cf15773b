"""Reads sessions from whatever the caller names: files, folders, archives, in any known format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import cast

from instar.engine.importers.companions import survey
from instar.engine.importers.protocol import Context, Reader, SpanningReader
from instar.engine.importers.records import Imported, ImportLimits, Skipped
from instar.engine.importers.splitting import read_values
from instar.engine.importers.streams import READ_ERRORS, Member, describe, members
from instar.engine.importers.values import Problem, Value
from instar.engine.importers.walk import Found, check_sources, walk

FORMATS: dict[str, str] = {
    "antigravity": "instar.engine.importers.antigravity.Antigravity",
    "atif": "instar.engine.importers.atif.Atif",
    "claude-code": "instar.engine.importers.claude_code.ClaudeCode",
    "codex": "instar.engine.importers.codex.Codex",
    "copilot": "instar.engine.importers.copilot.Copilot",
    "cursor": "instar.engine.importers.cursor.Cursor",
    "droid": "instar.engine.importers.droid.Droid",
    "gemini": "instar.engine.importers.gemini.Gemini",
    "general-agentbench": "instar.engine.importers.general_agentbench.GeneralAgentBench",
    "grok": "instar.engine.importers.grok.Grok",
    "inspect-ai": "instar.engine.importers.inspect_ai.InspectAI",
    "kimi": "instar.engine.importers.kimi.Kimi",
    "langfuse": "instar.engine.importers.langfuse.Langfuse",
    "opencode": "instar.engine.importers.opencode.OpenCode",
    "otel": "instar.engine.importers.otel.Otel",
    "pi": "instar.engine.importers.pi.Pi",
    "qwen": "instar.engine.importers.qwen.Qwen",
    "swe-agent": "instar.engine.importers.swe_agent.SweAgent",
    "tau-bench": "instar.engine.importers.tau_bench.TauBench",
    "openai-tools": "instar.engine.importers.openai_tools.OpenAITools",
    "openai-chat": "instar.engine.importers.openai_chat.OpenAIChat",
}
"""Short name → dotted path of the reader class. Their order is the order in which content is matched."""

_SAMPLE = 50


def read_sources(
    paths: Sequence[Path], *, limits: ImportLimits | None = None, wanted: Callable[[Path], bool] = lambda file: True
) -> Iterator[Imported | Skipped]:
    """Yield every session under the paths, and everything that was found there and left out, with its reason.

    Formats are told by content. Files are read one after the other, in order of their names, and no more than one
    value is held at a time (see `ImportLimits`). Only the named paths are looked at; where they hold evaluations or
    tool schemas beside sessions, the sessions are given them. A file that is not `wanted` gives no sessions; what it
    says about others still counts.

    Raises:
        SourceError: a named path does not exist or cannot be read; raised at once, before anything is read.
    """
    check_sources(paths)
    return _read(list(paths), limits or ImportLimits(), wanted)


def detect(path: Path) -> str | None:
    """The format of a file by its content (for an archive: of its first member that is known); None for unknown.

    Raises:
        SourceError: the path does not exist or cannot be read.
    """
    check_sources([path])
    readers = _readers()
    limits = ImportLimits()
    for found in walk(path):
        if isinstance(found, Skipped):
            continue
        for member in members(found, limits):
            if isinstance(member, Skipped):
                break
            try:
                opened = _open(member, readers, limits)
            except READ_ERRORS:
                break
            if opened.reader is not None:
                return opened.reader.name
    return None


def _read(paths: list[Path], limits: ImportLimits, wanted: Callable[[Path], bool]) -> Iterator[Imported | Skipped]:
    companions = survey(_files(paths), limits)
    context = Context(limits, companions)
    readers = _readers()
    for found in _files(paths):
        if isinstance(found, Skipped):
            yield found
            continue
        if not wanted(found.path):
            continue
        for member in members(found, limits):
            if isinstance(member, Skipped):
                yield member
                continue
            try:
                yield from _read_member(member, readers, context)
            except READ_ERRORS as error:
                yield Skipped(member.file, member.position("").strip() or "file", describe(error))
                break
    for reader in readers:
        if isinstance(reader, SpanningReader):
            yield from reader.finish()


def _files(paths: list[Path]) -> Iterator[Found | Skipped]:
    seen: set[Path] = set()
    for path in paths:
        for found in walk(path):
            real = (found.path if isinstance(found, Found) else found.source).resolve()
            if real not in seen:
                seen.add(real)
                yield found


@dataclass(frozen=True, slots=True)
class _Opened:
    """A file whose format is looked for: what was read of it so far, and the rest."""

    reader: Reader | None
    start: list[Value]
    problems: list[Problem]
    rest: Iterator[Value | Problem]


def _open(member: Member, readers: list[Reader], limits: ImportLimits) -> _Opened:
    """Look at the first values until one is recognised; no more of them than one value may be large."""
    values = read_values(member.stream, limits)
    start: list[Value] = []
    problems: list[Problem] = []
    size = 0
    for item in values:
        if isinstance(item, Problem):
            problems.append(item)
        else:
            start.append(item)
            size += item.size
            for reader in readers:
                if reader.recognises(item.json):
                    return _Opened(reader, start, problems, values)
        if len(start) + len(problems) >= _SAMPLE or size > limits.value_bytes:
            break
    return _Opened(None, start, problems, values)


def _read_member(member: Member, readers: list[Reader], context: Context) -> Iterator[Imported | Skipped]:
    opened = _open(member, readers, context.limits)
    if opened.reader is None:
        yield _unknown(member, opened)
        return
    waiting = opened.problems
    for item in opened.reader.read(_good(chain(opened.start, opened.rest), waiting), member, context):
        yield from _skipped(member, waiting)
        yield item
    yield from _skipped(member, waiting)


def _good(items: Iterator[Value | Problem], problems: list[Problem]) -> Iterator[Value]:
    """The values; problems are put aside for the caller."""
    for item in items:
        if isinstance(item, Problem):
            problems.append(item)
        else:
            yield item


def _skipped(member: Member, problems: list[Problem]) -> Iterator[Skipped]:
    for problem in problems:
        yield Skipped(member.file, member.position(problem.place), problem.reason)
    problems.clear()


def _unknown(member: Member, opened: _Opened) -> Skipped:
    known = f"known formats: {', '.join(sorted(FORMATS))}"
    if opened.start or not opened.problems:
        return Skipped(member.file, member.position("file"), f"unknown format; {known}")
    problem = opened.problems[0]
    return Skipped(member.file, member.position(problem.place), f"{problem.reason}; {known}")


def _readers() -> list[Reader]:
    readers: list[Reader] = []
    for dotted in FORMATS.values():
        module, _, name = dotted.rpartition(".")
        readers.append(cast(Reader, getattr(import_module(module), name)()))
    return readers
