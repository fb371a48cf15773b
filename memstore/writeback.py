"""A batch: staged entry by entry, then validated and committed as a whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Self

from pydantic import JsonValue

from instar.memstore.backend import Transaction
from instar.memstore.door import Door
from instar.memstore.errors import BatchClosed, InvalidRequest
from instar.memstore.pages import Page, PageDraft, digest_of
from instar.memstore.records import quick
from instar.memstore.redaction import Finding
from instar.memstore.represent import Representer
from instar.memstore.scopes import Principal
from instar.memstore.validation import Outcome, Validation, digest_of_batch
from instar.memstore.writes import (
    BatchRecord,
    Change,
    Entry,
    JournalEntry,
    JournalStatus,
    Limits,
    Op,
    ReasonCode,
    Receipt,
    Rejection,
)

_KEPT_VALUE = 20_000


def token(size: int) -> str:
    """So many random bytes in hexadecimal, for a name that nobody else chooses."""
    return os.urandom(size).hex()


@quick
@dataclass(frozen=True, slots=True)
class Request:
    """A closed batch, as the store sees it."""

    batch: str
    by: Principal
    scope: str
    key: str | None
    entries: tuple[Entry, ...]
    findings: tuple[Finding, ...] = ()


class Writeback:
    """A batch in the making. Nothing of it has an effect before the block around it ends cleanly."""

    def __init__(self, batch: str, door: Door, key: str | None, end: Callable[[Writeback], None]) -> None:
        self.id = batch
        self._door, self._key, self._end = door, key, end
        self.entries: list[Entry] = []
        self._receipt: Receipt | None = None
        self._open = True
        self.preview: Sequence[Page] = ()
        """Of a staged batch: the pages of its session as they will be once they are committed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        if kind is None:
            self._end(self)

    def append(self, draft: PageDraft) -> str:
        """Stage a new page; returns its id. With the batch's key, a generated id is the same on every attempt."""
        page_id = draft.id if draft.id is not None else self._generated()
        self._stage(self._door.append(page_id, draft, generated=draft.id is None))
        return page_id

    def merge(
        self,
        page_id: str,
        fields: Mapping[str, JsonValue],
        *,
        read: int,
        text: str | None = None,
        change: Change = Change(),  # noqa: B008  (frozen)
    ) -> None:
        """Stage new values of some top-level fields, three-way against the version that was read.

        What only this side changed applies; what both sides changed to different values is `STALE_VERSION`.
        """
        self._stage(self._door.change(Op.MERGE, page_id, content=fields, text=text, base=read, change=change))

    def replace(
        self,
        page_id: str,
        content: Mapping[str, JsonValue],
        *,
        expect: int,
        text: str | None = None,
        change: Change = Change(),  # noqa: B008  (frozen)
        drop: Sequence[str] = (),
    ) -> None:
        """Stage new content; `expect` is the last committed version.

        A field that the new content lacks must be named in `drop`; otherwise it is `DESTRUCTIVE_OP`.
        """
        self._stage(
            self._door.change(Op.REPLACE, page_id, content=content, text=text, base=expect, change=change, drop=drop)
        )

    @property
    def receipt(self) -> Receipt:
        """What was committed.

        Raises:
            InvalidRequest: the block has not ended yet, or nothing was committed.
        """
        if self._receipt is None:
            raise InvalidRequest("there is no receipt before the batch is committed")
        return self._receipt

    def _generated(self) -> str:
        if self._key is None:
            return f"page-{token(12)}"
        return f"page-{digest_of(f'{self._door.scope}|{self._key}|{len(self.entries)}')[:24]}"

    def _stage(self, entry: Entry) -> None:
        if not self._open:
            raise BatchClosed(self.id)
        self.entries.append(entry)

    def request(self, by: Principal) -> Request:
        """What is asked of the store."""
        return Request(self.id, by, self._door.scope, self._key, tuple(self.entries), tuple(self._door.findings))

    def settle(self, receipt: Receipt) -> None:
        """Keep what came of it."""
        self._receipt = receipt


def commit(
    tx: Transaction,
    request: Request,
    *,
    now: datetime,
    representer: Representer,
    limits: Limits,
    trusting: bool = False,
) -> Receipt | list[Rejection]:
    """Validate a batch and put all of it, or journal the reasons and put nothing. The caller ends the transaction.

    `trusting` takes appended pages for new, which saves looking for them; where one is not, the back end raises.

    Raises:
        Raced: another writer was faster, or what was taken for new is not; to be done again, without trust.
    """
    by, scope, key = request.by, request.scope, request.key
    digest = digest_of_batch(scope, request.entries) if key is not None else ""
    if key is not None and by.may(scope) and (before := tx.batch(scope, key)) is not None:
        if before.digest != digest:
            first = request.entries[0]
            return [Rejection(first.page_id, first.op, ReasonCode.DUPLICATE, "the key was used for other entries")]
        return Receipt(before.id, before.receipt, before.unchanged, duplicate=True)
    judge = Validation(tx, by=by, scope=scope, now=now, representer=representer, limits=limits, trusting=trusting)
    outcome = judge.run(request.entries)
    if outcome.rejections and trusting:
        judge = Validation(tx, by=by, scope=scope, now=now, representer=representer, limits=limits)
        outcome = judge.run(request.entries)
    if outcome.rejections:
        tx.log(rejection_lines(request, now, outcome))
        return outcome.rejections
    receipt = _receipt(request, outcome)
    record = None
    if key is not None:
        record = BatchRecord(request.batch, scope, key, digest, by.name, now, receipt.committed, receipt.unchanged)
    tx.put(outcome.pages, request.batch)
    tx.log(_committed(request, now, outcome), record)
    return receipt


def _receipt(request: Request, outcome: Outcome) -> Receipt:
    committed = {page.id: page.version for _, page in outcome.results if page is not None}
    unchanged: tuple[str, ...] = ()
    if outcome.unchanged:
        changed = {page.id for page in outcome.pages}
        unchanged = tuple(page_id for page_id in committed if page_id not in changed)
    return Receipt(request.batch, committed, unchanged, findings=request.findings)


def _committed(request: Request, now: datetime, outcome: Outcome) -> list[JournalEntry]:
    return [
        JournalEntry(
            at=now,
            batch=request.batch,
            actor=request.by.name,
            scope=page.scope,
            page_id=page.id,
            op=entry.op,
            status=JournalStatus.UNCHANGED if position in outcome.unchanged else JournalStatus.COMMITTED,
            version=page.version,
            digest=page.digest,
        )
        for position, (entry, page) in enumerate(outcome.results)
        if page is not None
    ]


def rejection_lines(request: Request, now: datetime, outcome: Outcome) -> list[JournalEntry]:
    """Journal lines of a batch that is not applied: the rejected entries with their reasons, the others abandoned."""
    reasons = iter(outcome.rejections)
    lines: list[JournalEntry] = []
    for entry, page in outcome.results:
        if page is not None:
            status, code, detail, value = JournalStatus.ABANDONED, None, "another entry was rejected", ""
        else:
            reason = next(reasons)
            status, code, detail = JournalStatus.REJECTED, reason.code, reason.detail
            # What is unfit may hold anything, and what is out of grant does not belong into that scope's journal.
            kept = entry.problem is None and reason.code is not ReasonCode.SCOPE_DENIED
            value = (entry.text or entry.content_json)[:_KEPT_VALUE] if kept else ""
        lines.append(
            JournalEntry(
                now,
                request.batch,
                request.by.name,
                request.scope,
                entry.page_id,
                entry.op,
                status,
                0,
                code,
                detail,
                "",
                value,
            )
        )
    return lines
