"""The pages of a framework's own memory: written and read through a store that may be away for a while."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from instar.core import spool
from instar.core.live import project_scope
from instar.core.settings import Settings
from instar.memstore import MemstoreError, Page, PageDraft, Principal, Store, open_store

BUSY_SECONDS = 2.0
log = logging.getLogger("instar.capture")


class PageLink:
    """Opens the store when it is first needed. What fails is said in the log and in `instar doctor`, never raised."""

    def __init__(self, settings: Settings, project: str) -> None:
        self._settings = settings
        self.scope = project_scope(settings.scope, project)
        self.by = Principal("instar", (settings.scope,))
        self._store: Store | None = None

    def store(self) -> Store:
        """The open store.

        Raises:
            MemstoreError: it cannot be opened.
        """
        if self._store is None:
            self._store = open_store(self._settings.database, busy_timeout=BUSY_SECONDS)
        return self._store

    def pages(self, *kinds: str, session: str | None = None) -> Sequence[Page] | None:
        """The pages of some kinds, oldest first; None where the store cannot be read."""
        try:
            found = self.store().find(self.by, scope=self.scope, session=session, exact=True)
            return [page for page in found if page.kind in kinds]
        except MemstoreError as error:
            self._failed(error)
            return None

    def write(self, *drafts: PageDraft) -> bool:
        """Commit pages, all or none; False when they could not be."""
        try:
            with self.store().writeback(self.by, scope=self.scope) as batch:
                for draft in drafts:
                    batch.append(draft)
        except MemstoreError as error:
            self._failed(error)
            return False
        return True

    def hide(self, session: str) -> None:
        """Hide the pages of a session."""
        try:
            self.store().rollback(self.by, scope=self.scope, session=session, versions={})
        except MemstoreError as error:
            self._failed(error)

    def close(self) -> None:
        """Give back the store."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def _failed(self, error: MemstoreError) -> None:
        self.close()
        log.warning("instar: a framework's memory is kept in this process only: %s", error)
        try:
            spool.note_failure(
                spool.folder_of(str(self._settings.home)), f"a framework's memory was not stored: {error}"
            )
        except OSError as problem:
            log.warning("instar: %s", problem)
