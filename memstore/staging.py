"""Staging: entries that are durable before they have an effect, and what becomes of them.

An agent's process may die at any moment. What it staged is found by the next one of that session, and is committed
or reported. It is never lost, and never applied twice: it leaves the table in the transaction that commits it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from instar.memstore.backend import Staged, Transaction
from instar.memstore.pages import Page
from instar.memstore.represent import Representer
from instar.memstore.scopes import Principal
from instar.memstore.validation import Outcome, Validation
from instar.memstore.wire import entry_from_text, entry_to_text
from instar.memstore.writeback import Request, commit, rejection_lines
from instar.memstore.writes import Entry, JournalEntry, JournalStatus, Limits, Receipt, Rejection


@dataclass(frozen=True, slots=True)
class Flushed:
    """What became of staged entries: everything sound is committed, and the rest is in the journal with its value."""

    receipt: Receipt
    rejections: tuple[Rejection, ...] = ()


@dataclass(frozen=True, slots=True)
class Desk:
    """The staged entries of one session."""

    by: Principal
    scope: str
    session: str
    representer: Representer
    limits: Limits

    def stage(self, tx: Transaction, request: Request, now: datetime) -> tuple[list[Page], list[Rejection]]:
        """Keep the entries without effect; returns the pages as they will be, or the reasons against them.

        Entries are judged together with those that wait already, so that nothing is staged that cannot be committed
        as things are now. What waits and has become unsound is left for `flush` to report.
        """
        waiting = [self._entry(staged) for staged in tx.staged(self.scope, self.session)]
        outcome = self._judge(tx, [*waiting, *request.entries], now)
        ours = _only(outcome, outcome.results[len(waiting) :])
        if ours.rejections:
            tx.log(rejection_lines(request, now, ours))
            return [], ours.rejections
        tx.stage([Staged(self.scope, self.session, request.batch, entry_to_text(entry)) for entry in request.entries])
        tx.log([self._line(request, entry, now) for entry in request.entries])
        return outcome.pages, []

    def flush(self, tx: Transaction, batch: str, now: datetime) -> Flushed:
        """Commit what was staged. What became unsound meanwhile is journalled with its value; the rest goes on."""
        waiting = tx.staged(self.scope, self.session)
        entries = [self._entry(staged) for staged in waiting]
        refused: list[Rejection] = []
        while entries:
            request = Request(batch, self.by, self.scope, None, tuple(entries))
            outcome = self._judge(tx, entries, now)
            if not outcome.rejections:
                break
            refused += outcome.rejections
            tx.log(rejection_lines(request, now, _only(outcome, [r for r in outcome.results if not r[1]])))
            entries = [entry for entry, page in outcome.results if page is not None]
        tx.unstage([staged.seq for staged in waiting])
        if not entries:
            return Flushed(Receipt(batch), tuple(refused))
        request = Request(batch, self.by, self.scope, None, tuple(entries))
        done = commit(tx, request, now=now, representer=self.representer, limits=self.limits)
        if isinstance(done, list):  # judged sound a moment ago in this transaction
            raise AssertionError(done)
        return Flushed(done, tuple(refused))

    def _judge(self, tx: Transaction, entries: Sequence[Entry], now: datetime) -> Outcome:
        validation = Validation(
            tx, by=self.by, scope=self.scope, now=now, representer=self.representer, limits=self.limits
        )
        return validation.run(entries)

    def _entry(self, staged: Staged) -> Entry:
        return entry_from_text(staged.entry, self.scope, self.representer)

    def _line(self, request: Request, entry: Entry, now: datetime) -> JournalEntry:
        return JournalEntry(
            now, request.batch, self.by.name, self.scope, entry.page_id, entry.op, JournalStatus.STAGED
        )


def _only(outcome: Outcome, results: list[tuple[Entry, Page | None]]) -> Outcome:
    """An outcome with only some of its results, and the reasons that belong to them."""
    reasons = iter(outcome.rejections)
    kept = {id(entry) for entry, _ in results}
    mine = [(entry, next(reasons)) for entry, page in outcome.results if page is None]
    return replace(outcome, results=results, rejections=[reason for entry, reason in mine if id(entry) in kept])
