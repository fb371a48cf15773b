"""Moving pages between stores: one JSON object per line, compressed with zstd.

The first line says what this is, every further one is a version of a page, the last one counts and hashes the others,
so that a file that was cut short or changed is found out before anything is taken in.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, BinaryIO

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from instar.memstore.backend import Transaction
from instar.memstore.door import Door
from instar.memstore.errors import ImportFailed
from instar.memstore.pages import Page, PageDraft, PageType, Pin, Provenance, State, canonical
from instar.memstore.redaction import Finding
from instar.memstore.represent import Subject
from instar.memstore.scopes import Principal
from instar.memstore.writes import JournalEntry, JournalStatus

FORMAT = "instar-pages"
VERSION = 1
_MAX_LINE = 64 * 1024 * 1024


class Line(BaseModel):
    """A version of a page, as it is written to a file. What a file says is checked, never trusted."""

    model_config = ConfigDict(extra="forbid", strict=False)

    id: str
    version: int = Field(ge=1)
    kind: str
    type: PageType
    scope: str
    state: State
    pin: Pin
    content: dict[str, JsonValue]
    text: str
    source: str
    references: list[str]
    importance: float
    tags: list[str]
    parent: str | None
    session: str | None
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    author: str = Field(max_length=200)
    hidden: bool
    digest: str


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import brought."""

    pages: int
    versions: int
    unchanged: int
    """Pages that were there already, in the same versions."""
    findings: tuple[Finding, ...] = ()
    """Secrets that the file held and the store does not."""


def write_pages(histories: Iterator[list[Page]], file: BinaryIO) -> int:
    """Write all versions of pages; returns how many pages. The file is left open."""
    import zstandard  # noqa: PLC0415  (only who moves pages pays for it)

    digest, pages, lines = hashlib.sha256(), 0, 0
    with zstandard.ZstdCompressor(level=6).stream_writer(file, closefd=False) as out:

        def put(fields: dict[str, Any]) -> None:
            line = (json.dumps(fields, ensure_ascii=False, separators=(",", ":")) + "\n").encode()
            digest.update(line)
            out.write(line)

        put({"format": FORMAT, "version": VERSION, "at": datetime.now(UTC).isoformat()})
        for history in histories:
            pages += 1
            for page in history:
                put(_fields(page))
                lines += 1
        put({"end": True, "lines": lines, "sha256": digest.hexdigest()})
    return pages


def _fields(page: Page) -> dict[str, Any]:
    line = Line(
        id=page.id,
        version=page.version,
        kind=page.kind,
        type=page.type,
        scope=page.scope,
        state=page.state,
        pin=page.pin,
        content=dict(page.content),
        text=page.text,
        source=page.provenance.source,
        references=list(page.provenance.references),
        importance=page.importance,
        tags=list(page.tags),
        parent=page.parent,
        session=page.session,
        created_at=page.created_at,
        updated_at=page.updated_at,
        expires_at=page.expires_at,
        author=page.author,
        hidden=page.hidden,
        digest=page.digest,
    )
    return line.model_dump(mode="json")


def read_lines(file: BinaryIO) -> list[Line]:
    """The page versions of a file, when the file is whole.

    Raises:
        ImportFailed: it is not an export, of a newer version, cut short, changed, or a line is malformed.
    """
    import zstandard  # noqa: PLC0415

    found: list[Line] = []
    digest, ended = hashlib.sha256(), False
    try:
        for number, raw in enumerate(_raw_lines(file), 1):
            if ended:
                raise ImportFailed(number, "something follows the end")
            fields = json.loads(raw)
            if number == 1:
                _check_header(fields)
            elif isinstance(fields, dict) and fields.get("end") is True:
                if (fields.get("lines"), fields.get("sha256")) != (len(found), digest.hexdigest()):
                    raise ImportFailed(number, "the file was changed: count or hash do not match")
                ended = True
            else:
                found.append(Line.model_validate(fields))
            digest.update(raw)
    except ValidationError as error:
        raise ImportFailed(len(found) + 2, f"not a page: {error.errors()[0]['msg']}") from error
    except (ValueError, RecursionError) as error:
        raise ImportFailed(len(found) + 1, f"not JSON: {type(error).__name__}") from error
    except zstandard.ZstdError as error:
        raise ImportFailed(0, "not a file compressed with zstd, or damaged") from error
    if not ended:
        raise ImportFailed(0, "the file was cut short")
    return found


def _raw_lines(file: BinaryIO) -> Iterator[bytes]:
    import zstandard  # noqa: PLC0415

    with zstandard.ZstdDecompressor().stream_reader(file, closefd=False) as plain:
        buffered = io.BufferedReader(plain)
        while line := buffered.readline(_MAX_LINE + 1):
            if len(line) > _MAX_LINE:
                raise ImportFailed(0, f"a line is longer than {_MAX_LINE} bytes")
            yield line


def _check_header(fields: object) -> None:
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise ImportFailed(1, "not an export of pages")
    if fields.get("version") != VERSION:
        raise ImportFailed(1, f"format version {fields.get('version')!r}, this one reads {VERSION}")


@dataclass(frozen=True, slots=True)
class Intake:
    """Takes the lines of a file into a store: all of them, or none."""

    by: Principal
    door: Door

    def run(self, tx: Transaction, lines: list[Line], batch: str, now: datetime) -> Imported:
        """Put what is not there yet.

        Raises:
            ImportFailed: a page is malformed, at odds with a stored one, or refers to nothing.
            ScopeDenied: a page lies out of grant.
        """
        pages = [self._page(number, line) for number, line in enumerate(lines, 2)]
        by_id: dict[str, list[Page]] = {}
        for page in pages:
            by_id.setdefault(page.id, []).append(page)
        there = tx.heads(by_id.keys())
        new = {page_id: history for page_id, history in by_id.items() if page_id not in there}
        for page_id in there:
            kept = [(page.version, page.digest, page.scope) for page in tx.versions(page_id)]
            if kept != [(page.version, page.digest, page.scope) for page in by_id[page_id]]:
                raise ImportFailed(0, f"the page {page_id} is stored already, with other versions")
        self._check_references(tx, by_id)
        put = [page for history in new.values() for page in history]
        tx.put(put, batch)
        tx.hide([page_id for page_id, history in new.items() if history[-1].hidden], True)
        tx.log([self._journal(page, batch, now) for page in put])
        return Imported(len(new), len(put), len(there), tuple(self.door.findings))

    def _page(self, number: int, line: Line) -> Page:
        self.by.require(line.scope)
        draft = PageDraft(
            kind=line.kind,
            type=line.type,
            content=line.content,
            text=line.text,
            state=line.state,
            pin=line.pin,
            provenance=Provenance(line.source, tuple(line.references)),
            importance=line.importance,
            tags=tuple(line.tags),
            parent=line.parent,
            session=line.session,
            created_at=line.created_at,
            expires_at=line.expires_at,
        )
        found_before = len(self.door.findings)
        entry = self.door.append(line.id, draft, generated=False)
        if entry.problem is not None or entry.draft is None:
            raise ImportFailed(number, str(entry.problem))
        clean = entry.draft
        subject = Subject(
            id=line.id,
            version=line.version,
            kind=line.kind,
            type=line.type,
            scope=line.scope,
            state=line.state,
            content=entry.content,
            text=clean.text,
            created=line.created_at.isoformat(timespec="seconds"),
        )
        forms = self.door.representer.represent(subject, canonical(entry.content))
        if forms.digest != line.digest and len(self.door.findings) == found_before:
            raise ImportFailed(number, "the bytes do not match their hash")
        return Page(
            id=line.id,
            version=line.version,
            kind=line.kind,
            type=line.type,
            scope=line.scope,
            state=line.state,
            pin=line.pin,
            content=entry.content,
            text=clean.text,
            provenance=clean.provenance,
            importance=line.importance,
            tags=clean.tags,
            parent=line.parent,
            session=line.session,
            created_at=line.created_at,
            updated_at=line.updated_at,
            expires_at=line.expires_at,
            author=line.author,
            hidden=line.hidden,
            forms=forms,
        )

    def _check_references(self, tx: Transaction, by_id: dict[str, list[Page]]) -> None:
        for page_id, history in by_id.items():
            numbers = [page.version for page in history]
            if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
                raise ImportFailed(0, f"versions of {page_id} are missing or out of order")
        wanted = {r for history in by_id.values() for page in history for r in page.provenance.references}
        wanted |= {page.parent for history in by_id.values() for page in history if page.parent}
        known = tx.scopes(wanted - by_id.keys())
        for reference in sorted(wanted - by_id.keys()):
            if reference not in known or not self.by.may(known[reference]):
                raise ImportFailed(0, f"the reference {reference} does not resolve")

    def _journal(self, page: Page, batch: str, now: datetime) -> JournalEntry:
        line = JournalEntry(now, batch, self.by.name, page.scope, page.id, "import", JournalStatus.COMMITTED)
        return replace(line, version=page.version, digest=page.digest)
