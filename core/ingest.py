"""Ingest: session logs become evidence pages. Reading the same log twice adds nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from instar.core.events import session_events
from instar.core.progress import report
from instar.core.records import (
    fingerprint,
    session_content,
    session_draft,
    session_scope,
    step_draft,
    toolset_draft,
    toolset_id,
)
from instar.core.runtime import Runtime
from instar.engine.importers import Imported, Skipped, read_sources
from instar.engine.session import Origin, ResultStatus, Session, ToolCall, ToolResult
from instar.memstore import Page, PageDraft, Rejected, Writeback

BATCH_STEPS = 2_000
"""Steps written in one transaction: large enough to be fast, small enough that an interruption loses little."""

LISTED_SKIPS = 200


class Skip(BaseModel):
    """Something that was not read, where, and why."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    position: str
    reason: str


class IngestReport(BaseModel):
    """The funnel from files to evidence."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sessions: int = 0
    new: int = 0
    grown: int = 0
    revised: int = 0
    """Sessions whose earlier steps changed; the earlier version of those pages stays readable."""
    unchanged: int = 0
    shorter: int = 0
    """Sessions that hold fewer steps than are stored; the stored ones are kept."""
    projects: dict[str, int] = Field(default_factory=dict)
    origins: dict[str, int] = Field(default_factory=dict)
    formats: dict[str, int] = Field(default_factory=dict)
    steps: int = 0
    calls: int = 0
    errors: int = 0
    refusals: int = 0
    events: int = 0
    """Sessions that failed or struggled, tools that were missing: what a reflection has to answer."""
    files_unchanged: int = 0
    """Files of the configured sources that were read before and did not change since."""
    redacted: int = 0
    skipped: int = 0
    skip_reasons: dict[str, int] = Field(default_factory=dict)
    skips: list[Skip] = Field(default_factory=list)
    """The first skips in full; `skipped` counts all."""


@dataclass
class Tally:
    """What was counted so far."""

    counts: Counter[str] = field(default_factory=Counter)
    projects: Counter[str] = field(default_factory=Counter)
    origins: Counter[str] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)
    skip_reasons: Counter[str] = field(default_factory=Counter)
    skips: list[Skip] = field(default_factory=list)

    def session(self, session: Session) -> None:
        """Count a session that was read."""
        self.counts["sessions"] += 1
        self.counts["steps"] += len(session.steps)
        self.projects[session.project] += 1
        self.origins[session.origin.value] += 1
        self.formats[session.format] += 1
        for step in session.steps:
            if isinstance(step, ToolCall):
                self.counts["calls"] += 1
            elif isinstance(step, ToolResult) and step.status is not ResultStatus.OK:
                self.counts["errors" if step.status is ResultStatus.ERROR else "refusals"] += 1

    def skip(self, item: Skipped) -> None:
        """Count something that was not read."""
        self.skip_reasons[item.reason.split(":")[0][:80]] += 1
        if len(self.skips) < LISTED_SKIPS:
            self.skips.append(Skip(source=str(item.source), position=item.position, reason=item.reason[:500]))

    def report(self) -> IngestReport:
        """The counts so far."""
        return IngestReport(
            **self.counts,
            projects=dict(sorted(self.projects.items())),
            origins=dict(sorted(self.origins.items())),
            formats=dict(sorted(self.formats.items())),
            skipped=sum(self.skip_reasons.values()),
            skip_reasons=dict(self.skip_reasons.most_common()),
            skips=self.skips,
        )


def ingest(rt: Runtime, paths: Sequence[Path]) -> IngestReport:
    """Read every session below `paths` into the store.

    Each session is written whole or not at all; after an interruption a second run completes the rest.

    Raises:
        SourceError: a path cannot be read at all (nothing was written).
        MemstoreError: the store cannot be written (whole sessions before that point are kept).
    """
    tally = Tally()
    take(rt, read_sources(paths), tally, root=rt.settings.scope)
    return tally.report()


def take(rt: Runtime, found: Iterable[Imported | Skipped], tally: Tally, *, root: str) -> None:
    """Write what was read below a scope, and count it.

    Raises:
        MemstoreError: the store cannot be written (whole sessions before that point are kept).
    """
    for batch in _batches(found, tally):
        _write(rt, batch, tally, root=root)
        report("ingest", done=tally.counts["sessions"], note=f"{tally.counts['new']} new")


def ingest_sessions(rt: Runtime, sessions: Sequence[Session]) -> IngestReport:
    """Write sessions that are at hand, by the same rules as those that are read from files.

    Raises:
        MemstoreError: the store cannot be written.
    """
    tally = Tally()
    for session in sessions:
        tally.session(session)
    _write(rt, sessions, tally, root=rt.settings.scope)
    return tally.report()


def _batches(found: Iterable[Imported | Skipped], tally: Tally) -> Iterator[list[Session]]:
    batch: list[Session] = []
    steps = 0
    for item in found:
        if not isinstance(item, Imported):
            tally.skip(item)
            continue
        tally.session(item.session)
        batch.append(item.session)
        steps += len(item.session.steps)
        if steps >= BATCH_STEPS:
            yield batch
            batch, steps = [], 0
    if batch:
        yield batch


def _write(rt: Runtime, sessions: Sequence[Session], tally: Tally, *, root: str) -> None:
    """Write a batch in as few transactions as there are scopes; alone, each, where another process interfered."""
    by_scope: dict[str, list[Session]] = {}
    for session in sessions:
        by_scope.setdefault(session_scope(root, session), []).append(session)
    for scope, group in by_scope.items():
        try:
            tally.counts.update(_write_group(rt, scope, group))
        except Rejected:
            # Another ingest moved one of these sessions on between our read and our write: read again, one by one.
            for session in group:
                tally.counts.update(_write_group(rt, scope, [session]))


def _write_group(rt: Runtime, scope: str, sessions: Sequence[Session]) -> Counter[str]:
    counts: Counter[str] = Counter()
    digests = {session.page_id: fingerprint(session.steps) for session in sessions}
    told = {session.page_id: _events(rt, session, digests[session.page_id]) for session in sessions}
    wanted = [session.page_id for session in sessions] + [draft.id or "" for each in told.values() for draft in each]
    stored = rt.store.get_many(rt.principal, wanted)
    with rt.store.writeback(rt.principal, scope=scope) as batch:
        toolsets: set[str] = set()
        for session in sessions:
            toolset = toolset_id(session.tools, scope)
            if toolset and toolset not in toolsets:
                toolsets.add(toolset)
                batch.append(toolset_draft(session.tools, scope, f"{session.format}:{session.project}"))
            digest = digests[session.page_id]
            page = stored.get(session.page_id)
            if page is None:
                counts["new"] += 1
                batch.append(session_draft(session, scope, toolset=toolset, digest=digest))
                for step in session.steps:
                    batch.append(step_draft(session, step))
                counts["events"] += _tell(batch, told[session.page_id], stored)
                continue
            content = session_content(session, toolset=toolset, digest=digest)
            if page.content == content:
                counts["unchanged"] += 1
                continue
            change, changed = _changes(rt, session, page, digest)
            counts[change] += 1
            if change == "shorter":
                continue
            for index, version in changed.items():
                draft = step_draft(session, session.steps[index])
                if version:
                    batch.replace(session.evidence_id(index), content=draft.content, expect=version)
                else:
                    batch.append(draft)
            batch.replace(session.page_id, content=content, expect=page.version)
            counts["events"] += _tell(batch, told[session.page_id], stored)
    counts["redacted"] += len(batch.receipt.findings)
    return counts


def _events(rt: Runtime, session: Session, digest: str) -> list[PageDraft]:
    """What a session tells; nothing where sessions of its origin are not learned from."""
    left_out = {Origin.HEADLESS: rt.settings.include_headless, Origin.SUBAGENT: rt.settings.include_subagents}
    return session_events(session, digest) if left_out.get(session.origin, True) else []


def _tell(batch: Writeback, told: Sequence[PageDraft], stored: Mapping[str, Page]) -> int:
    new = [draft for draft in told if draft.id not in stored]
    for draft in new:
        batch.append(draft)
    return len(new)


def _changes(rt: Runtime, session: Session, page: Page, digest: str) -> tuple[str, dict[int, int]]:
    """What became of a stored session: the kind of change, and each changed step with its stored version (0: new)."""
    before = page.content.get("steps")
    count = before if isinstance(before, int) else 0
    if len(session.steps) < count:
        return "shorter", {}
    if digest == page.content.get("fingerprint"):
        return "revised", {}
    if fingerprint(session.steps[:count]) == page.content.get("fingerprint"):
        return "grown", dict.fromkeys(range(count, len(session.steps)), 0)
    stored = rt.store.get_many(rt.principal, [session.evidence_id(index) for index in range(len(session.steps))])
    changed = {}
    for step in session.steps:
        old = stored.get(session.evidence_id(step.index))
        if old is None:
            changed[step.index] = 0
        elif old.content != step_draft(session, step).content:
            changed[step.index] = old.version
    return "revised", changed
