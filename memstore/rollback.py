"""Going back without losing anything: old content becomes a new version, later pages are hidden."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from instar.memstore.backend import Query, Transaction
from instar.memstore.pages import Page, canonical
from instar.memstore.represent import Representer, Subject
from instar.memstore.scopes import Principal
from instar.memstore.writes import JournalEntry, JournalStatus, Receipt


@dataclass(frozen=True, slots=True)
class Rollback:
    """Brings the pages of one session back to given versions."""

    by: Principal
    scope: str
    session: str
    versions: Mapping[str, int]
    representer: Representer

    def run(self, tx: Transaction, batch: str, now: datetime) -> Receipt:
        """Put and hide what differs. Pages already as they should be are left alone."""
        pages = tx.scan(Query(self.scope, self.by.grants, session=self.session))
        back = [page for head in pages if (page := self._back(tx, head, now)) is not None]
        hidden = [page for page in pages if page.id not in self.versions]
        tx.put(back, batch)
        tx.hide([page.id for page in hidden], True)
        lines = [(page, "rollback") for page in back] + [(page, "hide") for page in hidden]
        tx.log(
            [
                JournalEntry(
                    now,
                    batch,
                    self.by.name,
                    page.scope,
                    page.id,
                    op,
                    JournalStatus.COMMITTED,
                    page.version,
                    digest=page.digest,
                )
                for page, op in lines
            ]
        )
        return Receipt(batch, {page.id: page.version for page in back})

    def _back(self, tx: Transaction, head: Page, now: datetime) -> Page | None:
        wanted = self.versions.get(head.id, head.version)
        if wanted == head.version:
            return None
        found = tx.versions(head.id, wanted)
        if not found:
            return None
        old = found[0]
        subject = Subject(
            id=head.id,
            version=head.version + 1,
            kind=head.kind,
            type=head.type,
            scope=head.scope,
            state=old.state,
            content=old.content,
            text=old.text,
            created=head.created_at.isoformat(timespec="seconds"),
        )
        return replace(
            old,
            version=head.version + 1,
            updated_at=max(now, head.updated_at),
            author=self.by.name,
            forms=self.representer.represent(subject, canonical(old.content)),
        )
