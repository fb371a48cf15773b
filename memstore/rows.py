"""Between pages and rows."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from sqlalchemy import Row

from instar.memstore.faults import Fault, FaultKind
from instar.memstore.pages import Page, PageType, Pin, Provenance, Representations, State, canonical
from instar.memstore.writes import JournalEntry, JournalStatus, ReasonCode

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

Values = dict[str, str | int | float | bool | None]


def to_micros(time: datetime) -> int:
    """Microseconds since 1970, exactly."""
    return (time - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """The time in UTC."""
    return _EPOCH + timedelta(microseconds=micros)


def _maybe(time: datetime | None) -> int | None:
    return None if time is None else to_micros(time)


def head_values(page: Page, seq: int) -> Values:
    """The row of `pages`."""
    return {
        "seq": seq,
        "id": page.id,
        "version": page.version,
        "kind": page.kind,
        "type": page.type.value,
        "scope": page.scope,
        "state": page.state.value,
        "parent": page.parent,
        "session": page.session,
        "created_at": to_micros(page.created_at),
        "expires_at": _maybe(page.expires_at),
        "hidden": page.hidden,
    }


def version_values(page: Page, seq: int, batch: str) -> Values:
    """The row of `versions`. What equals `full` is not stored again."""
    forms = page.forms
    return {
        "page": seq,
        "version": page.version,
        "state": page.state.value,
        "pin": page.pin.value,
        "content": canonical(page.content) if page.text else forms.full,
        "text": page.text,
        "source": page.provenance.source,
        "reference_ids": _list(page.provenance.references),
        "importance": page.importance,
        "tags": _list(page.tags),
        "expires_at": _maybe(page.expires_at),
        "updated_at": to_micros(page.updated_at),
        "author": page.author,
        "batch": batch,
        "digest": forms.digest,
        "compressed": None if forms.compressed == forms.full else forms.compressed,
        "structured": None if forms.structured == forms.full else forms.structured,
        "pointer": forms.pointer,
        "tokens_pointer": forms.tokens[0],
        "tokens_structured": forms.tokens[1],
        "tokens_compressed": forms.tokens[2],
        "tokens_full": forms.tokens[3],
    }


def _list(values: tuple[str, ...]) -> str:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")) if values else "[]"


def _tuple(text: str) -> tuple[str, ...]:
    return () if text == "[]" else tuple(json.loads(text))


def page_of(row: Row[tuple[object, ...]]) -> Page:
    """The page in a joined row of `pages` and `versions`."""
    full = row.text or row.content
    return Page(
        id=row.id,
        version=row.version,
        kind=row.kind,
        type=PageType(row.type),
        scope=row.scope,
        state=State(row.state),
        pin=Pin(row.pin),
        content=json.loads(row.content),
        text=row.text,
        provenance=Provenance(row.source, _tuple(row.reference_ids)),
        importance=row.importance,
        tags=_tuple(row.tags),
        parent=row.parent,
        session=row.session,
        created_at=from_micros(row.created_at),
        updated_at=from_micros(row.updated_at),
        expires_at=None if row.expires_at is None else from_micros(row.expires_at),
        author=row.author,
        hidden=bool(row.hidden),
        forms=Representations(
            full=full,
            compressed=full if row.compressed is None else row.compressed,
            structured=full if row.structured is None else row.structured,
            pointer=row.pointer,
            tokens=(row.tokens_pointer, row.tokens_structured, row.tokens_compressed, row.tokens_full),
            digest=row.digest,
        ),
        seq=row.seq,
    )


def journal_values(entry: JournalEntry) -> Values:
    """The row of `journal`."""
    return {
        "at": to_micros(entry.at),
        "batch": entry.batch,
        "actor": entry.actor,
        "scope": entry.scope,
        "page": entry.page_id,
        "op": str(entry.op),
        "status": entry.status.value,
        "version": entry.version,
        "code": None if entry.code is None else entry.code.value,
        "detail": entry.detail,
        "digest": entry.digest,
        "value": entry.value,
    }


def journal_of(row: Row[tuple[object, ...]]) -> JournalEntry:
    """The journal line in a row."""
    return JournalEntry(
        at=from_micros(row.at),
        batch=row.batch,
        actor=row.actor,
        scope=row.scope,
        page_id=row.page,
        op=row.op,
        status=JournalStatus(row.status),
        version=row.version,
        code=None if row.code is None else ReasonCode(row.code),
        detail=row.detail,
        digest=row.digest,
        value=row.value,
        seq=row.seq,
    )


def fault_values(fault: Fault) -> Values:
    """The row of `faults`."""
    return {
        "at": to_micros(fault.at or _EPOCH),
        "kind": fault.kind.value,
        "scope": fault.scope,
        "session": fault.session,
        "turn": fault.turn,
        "cause": fault.cause,
        "pages": _list(fault.pages),
    }


def fault_of(row: Row[tuple[object, ...]]) -> Fault:
    """The fault in a row."""
    return Fault(
        kind=FaultKind(row.kind),
        scope=row.scope,
        session=row.session,
        turn=row.turn,
        cause=row.cause,
        pages=_tuple(row.pages),
        at=from_micros(row.at),
        seq=row.seq,
    )
