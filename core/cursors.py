"""Cursors: what was read of a source so far. They lie in the store, beside what was read from them.

A cursor holds each file's size, time of change and SHA-256 as they were *before* it was read, so that whatever is
written meanwhile is read the next time. Losing a cursor costs a second reading and nothing else: what is stored
already is told by its content.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue

from instar.core.runtime import Runtime
from instar.core.settings import Source
from instar.memstore import Page, PageDraft, PageType, Provenance, ReasonCode, Rejected

CURSOR = "cursor"
SETTLED_NS = 2_000_000_000
"""A file that changed so shortly before it was looked at may change again without a new time."""
CHUNK = 1 << 20
DATABASES = frozenset({".sqlite", ".sqlite3", ".db"})


class Seen(BaseModel):
    """A file as it was before it was read."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: int
    changed_ns: int
    sha256: str
    settled: bool
    """Whether its time of change can be relied on."""


class Cursor(BaseModel):
    """What was read of one folder of a source."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    """What the source names, or its pattern matched."""
    folder: str
    files: dict[str, Seen] = {}
    formats: list[str] = []
    """The formats that were met below the path."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What was read below one path: its files, the formats met, and the pages that say so, by folder."""

    path: str
    files: Mapping[str, Seen]
    formats: frozenset[str]
    pages: Mapping[str, Page]


def look_at(file: Path, before: Seen | None) -> Seen | None:
    """The state of a file; its content is only read where its size or time leave a doubt. None: it is gone.

    Raises:
        OSError: it cannot be read.
    """
    looked = time.time_ns()
    try:
        parts = _parts(file)
        stats = [part.stat() for part in parts]
        size, changed_ns = sum(stat.st_size for stat in stats), max(stat.st_mtime_ns for stat in stats)
        same = before is not None and (before.size, before.changed_ns) == (size, changed_ns)
        if before is not None and same and before.settled:
            return before
        digest = _sha256(parts)
    except FileNotFoundError:
        return None
    return Seen(size=size, changed_ns=changed_ns, sha256=digest, settled=changed_ns < looked - SETTLED_NS)


def changed(now: Mapping[str, Seen], before: Mapping[str, Seen]) -> set[str]:
    """The files whose content is not what was read."""
    return {name for name, seen in now.items() if name not in before or before[name].sha256 != seen.sha256}


def load(rt: Runtime, source: Source, path: Path) -> Kept:
    """What was read below a path; nothing where that is for the first time."""
    tag = f"cursor:{_key(source, path)}"
    pages = list(rt.store.find(rt.principal, scope=rt.settings.scope, kind=CURSOR, tag=tag))
    cursors = [Cursor.model_validate(page.content) for page in pages]
    files = {name: seen for cursor in cursors for name, seen in cursor.files.items()}
    formats = frozenset(name for cursor in cursors for name in cursor.formats)
    by_folder = {cursor.folder: page for cursor, page in zip(cursors, pages, strict=True)}
    return Kept(str(path), files, formats, by_folder)


def save(rt: Runtime, source: Source, kept: Kept, files: Mapping[str, Seen], formats: Set[str]) -> None:
    """Remember what was read. Where another process does the same at this moment, its word stands."""
    folders: dict[str, dict[str, Seen]] = {folder: {} for folder in kept.pages}
    for name, seen in files.items():
        folders.setdefault(str(Path(name).parent), {})[name] = seen
    key = _key(source, Path(kept.path))
    for folder, seen_there in folders.items():
        cursor = Cursor(path=kept.path, folder=folder, files=seen_there, formats=sorted(kept.formats | formats))
        content: dict[str, JsonValue] = cursor.model_dump(mode="json")
        page = kept.pages.get(folder)
        if page is not None and page.content == content:
            continue
        draft = PageDraft(
            id=f"{CURSOR}-{hashlib.sha256(f'{rt.settings.scope}|{key}|{folder}'.encode()).hexdigest()[:20]}",
            kind=CURSOR,
            type=PageType.EVIDENCE,
            content=content,
            provenance=Provenance(source="sources"),
            tags=(f"cursor:{key}",),
        )
        try:
            with rt.store.writeback(rt.principal, scope=rt.settings.scope) as batch:
                if page is None:
                    batch.append(draft)
                else:
                    batch.replace(page.id, content, expect=page.version)
        except Rejected as rejected:
            if any(reason.code is ReasonCode.TOO_LARGE for reason in rejected.rejections):
                raise


def _key(source: Source, path: Path) -> str:
    text = "\0".join([source.scope, source.format, str(path)])
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _parts(file: Path) -> list[Path]:
    """A file, and where it is a database what its program wrote beside it and not into it yet."""
    log = file.with_name(f"{file.name}-wal")
    return [file, log] if file.suffix in DATABASES and log.exists() else [file]


def _sha256(files: list[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while chunk := stream.read(CHUNK):
                digest.update(chunk)
    return digest.hexdigest()
