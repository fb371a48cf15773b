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

Value = str | int | float | bool | None
Values = tuple[Value, ...]
"""A row in the order of the columns of its table, without the number that the database gives it.

Members of enumerations are told by `_value_`: `value` is a function of Python, and every row has several.
"""


def to_micros(time: datetime) -> int:
    """Microseconds since 1970, exactly."""
    return (time - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """The time in UTC."""
    return _EPOCH + timedelta(microseconds=micros)


def _maybe(time: datetime | None) -> int | None:
    return None if time is None else to_micros(time)


def head_values(page: Page, seq: int | None) -> Values:
    """The row of `pages`; the database numbers one without a number, if it can."""
    return (
        seq,
        page.id,
        page.version,
        page.kind,
        page.type._value_,
        page.scope,
        page.state._value_,
        page.parent,
        page.session,
        to_micros(page.created_at),
        _maybe(page.expires_at),
        page.hidden,
    )


def version_values(page: Page, seq: int, batch: str) -> Values:
    """The row of `versions`. What equals `full` is not stored again."""
    forms = page.forms
    return (
        seq,
        page.version,
        page.state._value_,
        page.pin._value_,
        canonical(page.content) if page.text else forms.full,
        page.text,
        page.provenance.source,
        _list(page.provenance.references),
        page.importance,
        _list(page.tags),
        _maybe(page.expires_at),
        to_micros(page.updated_at),
        page.author,
        batch,
        forms.digest,
        None if forms.compressed == forms.full else forms.compressed,
        None if forms.structured == forms.full else forms.structured,
        forms.pointer,
        *forms.tokens,
    )


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
    return (
        to_micros(entry.at),
        entry.batch,
        entry.actor,
        entry.scope,
        entry.page_id,
        str(entry.op),
        entry.status._value_,
        entry.version,
        None if entry.code is None else entry.code._value_,
        entry.detail,
        entry.digest,
        entry.value,
    )


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
    return (
        to_micros(fault.at or _EPOCH),
        fault.kind.value,
        fault.scope,
        fault.session,
        fault.turn,
        fault.cause,
        _list(fault.pages),
    )


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
