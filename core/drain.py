"""Drain the spool: what hooks and agents left there becomes pages, and then evidence to learn from."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from instar.core import spool
from instar.core.briefing import write_briefing
from instar.core.events import give_feedback
from instar.core.ingest import ingest, ingest_sessions
from instar.core.live import Event, Feeder, Kind, live_scope, read_lines
from instar.core.live_session import live_session
from instar.core.progress import report as tell
from instar.core.runtime import Runtime
from instar.core.settings import Settings
from instar.memstore import Harness, MemstoreError

UNREADABLE = "unreadable.log"
TRACES = "otlp"
TRACE_SECONDS = 3_600
"""A trace to which nothing was added for so long is over."""
STALE_HOURS = 48.0
"""Events that nobody stored for so long are worth an alarm; every night stores them."""
_BUDGET = 1


class Drained(BaseModel):
    """What became of the spool."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    files: int = 0
    events: int = 0
    sessions: int = 0
    transcripts: int = 0
    """Sessions that were read from their own log instead, which holds more than hooks are told."""
    traces: int = 0
    """Traces that arrived over OTLP; one that grows is read again."""
    unreadable: int = 0
    """Lines that are no events; they are kept in `spool/unreadable.log`."""
    refused: int = 0
    """Events that the store does not take; the journal says why."""


def drain(rt: Runtime) -> Drained:
    """Store everything that is in the spool and that no running agent still writes.

    A file is deleted once it is stored. After an interruption the rest is stored the next time, and nothing twice.

    Raises:
        MemstoreError: the store cannot be written; the spool keeps everything, and the reason is noted in it.
        OSError: the spool cannot be read.
    """
    folder = spool.folder_of(str(rt.settings.home))
    counts = dict.fromkeys(Drained.model_fields, 0)
    projects: set[str] = set()
    try:
        for path, descriptor in spool.take(folder):
            _drain_file(rt, folder, descriptor, counts, projects)
            Path(path).unlink()
            counts["files"] += 1
            tell("spool", done=counts["files"], note=f"{counts['events']} events")
        counts["traces"] = _read_traces(rt)
        for project in sorted(projects):
            write_briefing(rt, project)
    except MemstoreError as error:
        spool.note_failure(folder, str(error))
        raise
    if counts["files"]:
        spool.clear_failure(folder)
    return Drained(**counts)


def _read_traces(rt: Runtime) -> int:
    """Read the traces that arrived; files of those that have been over for long are deleted once they are read."""
    files = sorted((rt.settings.home / TRACES).glob("*.jsonl"))
    if not files:
        return 0
    over = [file for file in files if time.time() - file.stat().st_mtime > TRACE_SECONDS]
    report = ingest(rt, files)
    if not report.skipped:
        for file in over:
            file.unlink(missing_ok=True)
    return len(files)


def spool_alarms(settings: Settings) -> list[str]:
    """What somebody should know about events that were not stored; empty when all is well."""
    found = spool.waiting(spool.folder_of(str(settings.home)))
    hours = (time.time() - found.since) / 3600 if found.files else 0.0
    if found.failure:
        kept = f"{found.files} files of events wait in the spool; `instar ingest` stores them" if found.files else ""
        return [f"What agents did could not be stored: {found.failure}. {kept}".rstrip()]
    if hours > STALE_HOURS:
        return [f"{found.files} files of events wait in the spool for {hours:.0f} hours; `instar ingest` stores them"]
    return []


def _drain_file(rt: Runtime, folder: str, descriptor: int, counts: dict[str, int], projects: set[str]) -> None:
    runs: dict[str, list[Event]] = {}
    for line, event in read_lines(descriptor):
        if event is None:
            counts["unreadable"] += 1
            _keep_unreadable(folder, line)
        else:
            runs.setdefault(event.run, []).append(event)
    for events in runs.values():
        projects.add(events[0].project)
        counts["refused"] += feed_all(rt, events)
        counts["events"] += len(events)
        counts["sessions"] += 1
        counts["transcripts"] += learn_from(rt, events)


def feed_all(rt: Runtime, events: list[Event]) -> int:
    """Record the events of one session; returns how many the store refuses."""
    first = events[0]
    scope = live_scope(rt.settings.scope, first.project, first.run)
    harness = Harness(rt.store, rt.principal, scope=scope, session=first.run, budget=_BUDGET)
    harness.session_start()
    feeder = Feeder(harness, rt.store, rt.principal, scope=scope, run=first.run)
    refused = feeder.feed_fit(events, final=True).refused
    harness.close()
    return refused


def learn_from(rt: Runtime, events: Iterable[Event]) -> int:
    """Bring a session that ended to where it is learned from; returns 1 where its own log was read for that."""
    last: Event | None = None
    said: list[Event] = []
    transcript, ended = "", False
    for event in events:
        last = event
        said += [event] if event.kind is Kind.FEEDBACK else []
        transcript = event.text("transcript") or transcript
        ended = ended or event.kind is Kind.END
    if last is None:
        return 0
    if transcript:
        path = Path(transcript)
        if ended and path.suffix == ".jsonl" and path.is_file():
            ingest(rt, [path])
            return 1
        return 0
    if ended:
        session = live_session(rt, last)
        if session is not None:
            ingest_sessions(rt, [session])
            for word in said:
                good = word.fields.get("good") is True
                give_feedback(rt, session.page_id, good=good, note=word.text("note"), by=word.text("by"))
    return 0


def _keep_unreadable(folder: str, line: str) -> None:
    descriptor = os.open(f"{folder}/{UNREADABLE}", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(line.rstrip("\n") + "\n")
