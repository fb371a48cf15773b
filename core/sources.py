"""The configured sources: what is new in them becomes evidence, and what was read before is not read again."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping
from pathlib import Path

from instar.core.cursors import Seen, changed, load, look_at, save
from instar.core.ingest import IngestReport, Tally, take
from instar.core.progress import report
from instar.core.runtime import Runtime
from instar.core.settings import Source
from instar.engine.importers import Imported, Skipped, SourceError, check_sources, read_sources
from instar.engine.importers.walk import walk

SPREAD = frozenset({"opencode", "general-agentbench"})
"""Formats whose sessions lie in several folders: there one changed file makes all of them worth reading."""


def ingest_sources(rt: Runtime) -> IngestReport:
    """Read what is new or changed in every configured source.

    A source that is not there, or cannot be read, is named among the skips and keeps no other from being read. After
    an interruption the next call goes on where this one was; nothing is left out, and nothing stored twice.

    Raises:
        MemstoreError: the store cannot be read or written; whole sessions before that point are kept.
    """
    tally = Tally()
    for source in rt.settings.sources:
        for pattern in source.paths:
            paths = _matching(pattern)
            if not paths:
                tally.skip(Skipped(Path(pattern), "source", "matches no file or folder"))
            for path in paths:
                _read(rt, source, path, tally)
    return tally.report()


def _matching(pattern: str) -> list[Path]:
    if not glob.has_magic(pattern):
        return [Path(pattern)] if Path(pattern).exists() else []
    return [Path(found) for found in sorted(glob.glob(pattern, recursive=True))]  # noqa: PTH207 — it is absolute


def _read(rt: Runtime, source: Source, path: Path, tally: Tally) -> None:
    try:
        check_sources([path])
    except SourceError as error:
        tally.skip(Skipped(path, "source", str(error)))
        return
    kept = load(rt, source, path)
    now = _look(path, kept.files, tally)
    new = changed(now, kept.files)
    wanted = _worth_reading(path, now, new, spread=bool(SPREAD & kept.formats))
    tally.counts["files_unchanged"] += len(now) - len(wanted)
    formats: set[str] = set()
    if new:
        report("ingest", note=f"{len(new)} new or changed files in {path.name}")
        found = read_sources([path], wanted=lambda file: str(file) in wanted)
        take(rt, _fitting(found, source, formats), tally, root=_scope(rt, source))
        if SPREAD & formats and not SPREAD & kept.formats:
            # Only now it is known that sessions lie across folders here; what was left out belongs to them.
            rest = set(now) - wanted
            wanted |= rest
            if rest:
                take(rt, _fitting(read_sources([path]), source, formats), tally, root=_scope(rt, source))
    save(rt, source, kept, now, formats)


def _look(path: Path, before: Mapping[str, Seen], tally: Tally) -> dict[str, Seen]:
    """Every file below a path as it is now. What cannot be looked at is left to the reading, which says why."""
    now: dict[str, Seen] = {}
    for found in walk(path):
        if isinstance(found, Skipped):
            continue
        name = str(found.path)
        try:
            seen = look_at(found.path, before.get(name))
        except OSError as error:
            tally.skip(Skipped(found.path, "file", f"cannot be read: {error.strerror}"))
            continue
        if seen is not None:
            now[name] = seen
    return now


def _worth_reading(path: Path, now: Mapping[str, Seen], new: set[str], *, spread: bool) -> set[str]:
    """The changed files with those beside them, which may continue the same session."""
    if not new:
        return set()
    if spread or path.is_file():
        return set(now)
    folders = {str(Path(name).parent) for name in new}
    return {name for name in now if str(Path(name).parent) in folders}


def _fitting(found: Iterator[Imported | Skipped], source: Source, formats: set[str]) -> Iterator[Imported | Skipped]:
    """What was read, except sessions of another format than the source is said to hold."""
    for item in found:
        if isinstance(item, Imported):
            formats.add(item.session.format)
            if source.format and item.session.format != source.format:
                reason = f"another format than the source is set to: {item.session.format}, not {source.format}"
                yield Skipped(item.source, item.position, reason)
                continue
        yield item


def _scope(rt: Runtime, source: Source) -> str:
    return f"{rt.settings.scope}/{source.scope}" if source.scope else rt.settings.scope
