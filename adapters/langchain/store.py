"""LangGraph's long-term store on pages: every value that was ever put stays readable as an earlier version."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore
from pydantic import JsonValue

from instar.adapters.capture.lookup import rank
from instar.adapters.capture.pages import PageLink
from instar.adapters.capture.plain import to_json
from instar.core.settings import Settings
from instar.memstore import Change, Page, PageDraft, PageType

ITEM = "langgraph-item"
_ALL = 1_000_000


class InstarStore(BaseStore):
    """A `BaseStore` of one project. Deleting marks an item as deleted; nothing is overwritten for good.

    Unlike a recording, a failing operation raises: the agent has to know that nothing was kept.
    """

    supports_ttl = True
    __slots__ = ("_link",)

    def __init__(self, settings: Settings, *, project: str = "") -> None:
        self._link = PageLink(settings, project)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run the operations in order.

        Raises:
            MemstoreError: the store cannot be read or written.
        """
        return [self._run(op) for op in ops]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """As `batch`."""
        return await asyncio.to_thread(self.batch, list(ops))

    def close(self) -> None:
        """Give back the store."""
        self._link.close()

    def _run(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            page = self._page(op.namespace, op.key)
            return None if page is None or not _alive(page) else _item(page)
        if isinstance(op, PutOp):
            self._put(op)
            return None
        pages = [page for page in self._all() if _alive(page)]
        held = InMemoryStore()
        for page in pages:
            item = _item(page)
            held.put(item.namespace, item.key, item.value)
        if isinstance(op, SearchOp):
            return self._search(held, op, pages)
        if isinstance(op, ListNamespacesOp):
            return held.batch([op])[0]
        raise TypeError(f"not an operation of a store: {type(op).__name__}")

    def _search(self, held: InMemoryStore, op: SearchOp, pages: Sequence[Page]) -> list[SearchItem]:
        whole = op._replace(query=None, limit=_ALL, offset=0)
        found = held.batch([whole])[0]
        fitting = (
            {(item.namespace, item.key) for item in found if isinstance(item, Item)}
            if isinstance(found, list)
            else set()
        )
        items = [item for item in map(_item, pages) if (item.namespace, item.key) in fitting]
        items.sort(key=lambda item: item.updated_at, reverse=True)
        scored: list[tuple[Item, float | None]] = [(item, None) for item in items]
        if op.query:
            order = rank(op.query, [str(item.value) for item in items])
            scored = [(items[at], score) for at, score in order]
        return [
            SearchItem(item.namespace, item.key, item.value, item.created_at, item.updated_at, score)
            for item, score in scored[op.offset : op.offset + op.limit]
        ]

    def _put(self, op: PutOp) -> None:
        page = self._page(op.namespace, op.key)
        if op.value is None and page is None:
            return
        value = to_json(dict(op.value)) if op.value is not None else page.content.get("value") if page else None
        content: dict[str, JsonValue] = {
            "namespace": list(op.namespace),
            "key": op.key,
            "value": value,
            "deleted": op.value is None,
        }
        until = datetime.now(UTC) + timedelta(minutes=op.ttl) if op.ttl is not None and op.value is not None else None
        with self._link.store().writeback(self._link.by, scope=self._link.scope) as batch:
            if page is None:
                page_id = _page_id(self._link.scope, op.namespace, op.key)
                batch.append(
                    PageDraft(id=page_id, kind=ITEM, type=PageType.EVIDENCE, content=content, expires_at=until)
                )
            else:
                batch.replace(page.id, content, expect=page.version, change=Change(expires_at=until))

    def _page(self, namespace: tuple[str, ...], key: str) -> Page | None:
        return self._link.store().get(self._link.by, _page_id(self._link.scope, namespace, key))

    def _all(self) -> list[Page]:
        return list(self._link.store().find(self._link.by, scope=self._link.scope, kind=ITEM, exact=True))


def _alive(page: Page) -> bool:
    return not page.hidden and not page.content.get("deleted") and not page.expired(datetime.now(UTC))


def _item(page: Page) -> Item:
    namespace, value = page.content.get("namespace"), page.content.get("value")
    return Item(
        namespace=tuple(map(str, namespace)) if isinstance(namespace, list) else (),
        key=str(page.content.get("key")),
        value=value if isinstance(value, dict) else {},
        created_at=page.created_at,
        updated_at=page.updated_at,
    )


def _page_id(scope: str, namespace: tuple[str, ...], key: str) -> str:
    return f"item-{hashlib.sha256(chr(0).join((scope, *namespace, '', key)).encode()).hexdigest()[:24]}"
