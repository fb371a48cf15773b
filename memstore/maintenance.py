"""The second, privileged door: what is past its time leaves here, and the journal says so without the content.

Only this door deletes. It keeps the row of an erased page, so that references to it still resolve and say what
happened.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar

from instar.memstore.backend import Backend, Query, Transaction
from instar.memstore.pages import ERASED, RESIDENCY, Page, Pin, Provenance, Representations, digest_of
from instar.memstore.scopes import Principal
from instar.memstore.tokens import count_tokens
from instar.memstore.wire import page_in
from instar.memstore.writes import JournalEntry, JournalStatus

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept. None keeps without end."""

    versions: int | None = None
    """How many of the last versions of a page."""
    version_age: timedelta | None = None
    """Versions before the last one that are younger than this are kept in any case."""


class Maintenance:
    """Expires, hides, shows, forgets old versions, and erases. Every act is journalled with who, what and why."""

    def __init__(self, backend: Backend, by: Principal, clock: Callable[[], datetime]) -> None:
        self._backend, self._by, self._clock = backend, by, clock

    def archive(self, ids: Collection[str], *, reason: str) -> list[str]:
        """Hide pages: they are not found any more, and stay readable by id. Returns those that there are."""
        return self._hide(ids, hidden=True, reason=reason)

    def restore(self, ids: Collection[str], *, reason: str) -> list[str]:
        """Show hidden pages again. Returns those that there are."""
        return self._hide(ids, hidden=False, reason=reason)

    def erase(self, ids: Collection[str], *, reason: str) -> list[str]:
        """Destroy the content of pages, in all versions, beyond recovery. Returns those that there are.

        What is only staged goes too, and what the journal keeps of entries that were refused.

        Raises:
            ScopeDenied: one of them lies out of grant; nothing was erased.
        """

        def work(tx: Transaction) -> list[str]:
            heads = self._heads(tx, ids)
            tx.erase([_blank(page) for page in heads])
            erased = self._log(tx, heads, "erase", reason)
            return erased + self._erase_uncommitted(tx, set(ids), set(erased), reason)

        return self._backend.write(work)

    def _erase_uncommitted(self, tx: Transaction, ids: set[str], erased: set[str], reason: str) -> list[str]:
        waiting = {staged.seq: staged for grant in self._by.grants for staged in tx.staged(grant, None)}
        found = {seq: page_id for seq, staged in waiting.items() if (page_id := page_in(staged.entry)) in ids}
        tx.unstage(list(found))
        scopes = {page_id: waiting[seq].scope for seq, page_id in found.items()}
        scopes |= {page_id: self._by.grants[0] for page_id in tx.blank(ids, self._by.grants) if page_id not in scopes}
        only = sorted(scopes.keys() - erased)
        self._write_down(tx, [(page_id, scopes[page_id], 0) for page_id in only], "erase", reason)
        return only

    def erase_expired(self, scope: str, *, reason: str = "expired") -> list[str]:
        """Erase what is past its time in and below a scope. Hard-pinned pages stay.

        Raises:
            ScopeDenied: no grant covers the scope.
        """
        self._by.require(scope)
        now = self._clock()
        with self._backend.read() as view:
            pages = view.scan(Query(scope, self._by.grants, expired_by=now, hidden=True))
        due = [page.id for page in pages if page.pin is not Pin.HARD and not is_erased(page)]
        return self.erase(due, reason=reason) if due else []

    def forget_versions(self, scope: str, retention: Retention) -> int:
        """Drop versions that retention does not keep, never the last one. Returns how many.

        Raises:
            ScopeDenied: no grant covers the scope.
        """
        self._by.require(scope)
        if retention.versions is None and retention.version_age is None:
            return 0

        def work(tx: Transaction) -> int:
            dropped = 0
            for head in tx.scan(Query(scope, self._by.grants, hidden=True)):
                old = self._superfluous(tx.versions(head.id), retention) if head.version > 1 else []
                if old:
                    tx.drop(head.id, [page.version for page in old])
                    self._log(tx, [head], "forget", f"{len(old)} old versions")
                    dropped += len(old)
            return dropped

        return self._backend.write(work)

    def _superfluous(self, versions: list[Page], retention: Retention) -> list[Page]:
        old = versions[:-1]
        if retention.versions is not None:
            old = old[: max(len(versions) - max(retention.versions, 1), 0)]
        if retention.version_age is not None:
            limit = self._clock() - retention.version_age
            old = [page for page in old if page.updated_at < limit]
        return old

    def _hide(self, ids: Collection[str], *, hidden: bool, reason: str) -> list[str]:
        def work(tx: Transaction) -> list[str]:
            heads = self._heads(tx, ids)
            tx.hide([page.id for page in heads], hidden)
            return self._log(tx, heads, "archive" if hidden else "restore", reason)

        return self._backend.write(work)

    def _heads(self, tx: Transaction, ids: Collection[str]) -> list[Page]:
        heads = list(tx.heads(ids).values())
        for page in heads:
            self._by.require(page.scope)
        return heads

    def _log(self, tx: Transaction, pages: Iterable[Page], op: str, reason: str) -> list[str]:
        done = list(pages)
        self._write_down(tx, [(page.id, page.scope, page.version) for page in done], op, reason)
        return [page.id for page in done]

    def _write_down(self, tx: Transaction, done: Iterable[tuple[str, str, int]], op: str, reason: str) -> None:
        batch, now, why = f"care-{secrets.token_hex(10)}", self._clock(), reason[:500]
        status = JournalStatus.MAINTAINED
        tx.log(
            [
                JournalEntry(now, batch, self._by.name, scope, page_id, op, status, version, detail=why)
                for page_id, scope, version in done
            ]
        )


def is_erased(page: Page) -> bool:
    """Whether the content of a page was destroyed by maintenance."""
    return page.content == {ERASED: True} and not page.text


def _blank(page: Page) -> Page:
    """What is left of an erased page: that there was one."""
    full = f'{{"{ERASED}":true}}'
    tokens = count_tokens(full)
    forms = Representations(full, full, full, full, (tokens,) * 4, digest_of(full))
    pin = RESIDENCY[page.type].pin
    provenance = Provenance("", page.provenance.references)
    return replace(
        page, content={ERASED: True}, text="", tags=(), forms=forms, pin=pin, hidden=True, provenance=provenance
    )
