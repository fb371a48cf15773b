"""A conversation that is kept as pages. What was popped or cleared is hidden, and stays in the history."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import threading
from typing import cast

from agents import SessionSettings, TResponseInputItem

from instar.adapters.capture import Recorder
from instar.adapters.capture.pages import PageLink
from instar.adapters.capture.plain import to_json
from instar.adapters.openai_agents.items import said
from instar.core.settings import Settings
from instar.memstore import Page, PageDraft, PageType

ITEM, POPPED = "agents-item", "agents-popped"


class InstarSession:
    """The SDK's `Session`. A store that breaks costs the items of that time, and not the run."""

    def __init__(
        self,
        settings: Settings,
        session_id: str,
        *,
        project: str = "",
        recorder: Recorder | None = None,
        session_settings: SessionSettings | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings: SessionSettings | None = session_settings
        self._recorder = recorder
        self._link = PageLink(settings, project)
        self._name = f"items-{hashlib.sha256(session_id.encode()).hexdigest()[:16]}"
        self._items: list[tuple[str, TResponseInputItem]] | None = None
        self._lock = threading.RLock()

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """All items, or the newest `limit` of them, oldest first."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        items = [item for _, item in await asyncio.to_thread(self._load)]
        return items if limit is None else items[-limit:] if limit > 0 else []

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Keep items at the end."""
        await asyncio.to_thread(self._add, items)

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the newest item out."""
        return await asyncio.to_thread(self._pop)

    async def clear_session(self) -> None:
        """Begin anew."""
        await asyncio.to_thread(self._clear)

    def close(self) -> None:
        """Give back the store."""
        self._link.close()

    def _load(self) -> list[tuple[str, TResponseInputItem]]:
        with self._lock:
            if self._items is None:
                pages = self._link.pages(ITEM, POPPED, session=self._name)
                if pages is None:
                    return []
                popped = {page.content.get("item") for page in pages if page.kind == POPPED}
                self._items = [
                    (page.id, _item(page)) for page in pages if page.kind == ITEM and page.id not in popped
                ]
            return list(self._items)

    def _add(self, items: list[TResponseInputItem]) -> None:
        with self._lock:
            held = self._load()
            drafts = [
                PageDraft(
                    id=f"{self._name}.{secrets.token_hex(8)}",
                    kind=ITEM,
                    type=PageType.EVIDENCE,
                    content={"item": to_json(item)},
                    session=self._name,
                )
                for item in items
            ]
            self._link.write(*drafts)
            self._items = [*held, *((str(draft.id), item) for draft, item in zip(drafts, items, strict=True))]
            if self._recorder is not None:
                self._recorder.heard(said([item for _, item in self._items]))

    def _pop(self) -> TResponseInputItem | None:
        with self._lock:
            held = self._load()
            if not held:
                return None
            page_id, item = held.pop()
            self._link.write(
                PageDraft(kind=POPPED, type=PageType.EVIDENCE, content={"item": page_id}, session=self._name)
            )
            self._items = held
            return item

    def _clear(self) -> None:
        with self._lock:
            self._link.hide(self._name)
            self._items = []


def _item(page: Page) -> TResponseInputItem:
    return cast(TResponseInputItem, page.content.get("item"))
