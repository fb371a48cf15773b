"""What a client can do with its memory. The scope is the client's own; no argument can name another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from instar.adapters.capture.lookup import search
from instar.adapters.mcp.principals import Client
from instar.core.live import live_scope, run_id
from instar.memstore import (
    Harness,
    InvalidRequest,
    Page,
    PageDraft,
    PageType,
    Provenance,
    ScopeDenied,
    State,
    Store,
)

BUDGET = 2_000
Kind = Literal["note", "message", "constraint", "plan", "preference"]
_TYPES: Mapping[str, PageType] = {
    "note": PageType.EVIDENCE,
    "message": PageType.CONVERSATION,
    "constraint": PageType.CONSTRAINT,
    "plan": PageType.PLAN,
    "preference": PageType.PREFERENCE,
}


class Written(BaseModel):
    """A page that is committed and was read back."""

    model_config = ConfigDict(frozen=True)

    page: str
    version: int
    sha256: str


class Shown(BaseModel):
    """A page as a client sees it."""

    model_config = ConfigDict(frozen=True)

    page: str
    kind: str
    state: str
    text: str
    score: float
    created_at: datetime
    session: str | None
    rests_on: int
    """How many recorded pages the statement rests on."""


class Recalled(BaseModel):
    """The answer to a recall. `status` is hit, no-match, denied or backend-error."""

    model_config = ConfigDict(frozen=True)

    status: str
    degraded: str
    detail: str
    items: list[Shown]


class Memory:
    """The memory of one client."""

    def __init__(self, store: Store, client: Client, *, root: str) -> None:
        self._store, self._client, self._root = store, client, root

    def record(
        self, kind: Kind, text: str, fields: Mapping[str, JsonValue], *, session: str, tags: tuple[str, ...]
    ) -> Written:
        """Commit a page of a session.

        Raises:
            MemstoreError: nothing was written.
        """
        content: dict[str, JsonValue] = dict(fields)
        if kind == "message":
            content.setdefault("speaker", "assistant")
        draft = PageDraft(
            kind=kind,
            type=_TYPES[kind],
            content=content,
            text=text,
            tags=tags,
            provenance=Provenance(f"mcp:{self._client.principal.name}"),
        )
        with self._harness(session) as harness:
            (page_id,) = harness.record([draft]).committed
        page = self._store.get(self._client.principal, page_id)
        if page is None:
            raise InvalidRequest("the page could not be read back")
        return Written(page=page.id, version=page.version, sha256=page.digest)

    def recall(
        self,
        query: str,
        *,
        kind: str | None,
        state: State | None,
        tool: str | None,
        tag: str | None,
        session: str | None,
        since: datetime | None,
        limit: int,
    ) -> Recalled:
        """Pages that fit, in all that the client may read."""
        items: list[Shown] = []
        status, degraded, detail = "no-match", "", ""
        for grant in self._client.principal.grants:
            scope = live_scope(grant, "", self._run(session)) if session else grant
            found = search(
                self._store,
                self._client.principal,
                scope=scope,
                query=query,
                kind=kind,
                state=state,
                tag=f"tool:{tool}" if tool else tag,
                since=since,
                limit=limit,
            )
            degraded = found.degraded or degraded
            if found.status in ("denied", "backend-error"):
                status, detail = found.status, found.detail
            items += [_shown(hit.page, hit.score) for hit in found.hits]
        items.sort(key=lambda item: -item.score)
        if items:
            status = "hit"
        return Recalled(status=status, degraded=degraded, detail=detail, items=items[:limit])

    def page(self, page_id: str) -> Page | None:
        """A page; None for one that does not exist or belongs to somebody else: there is no difference to see."""
        try:
            return self._store.get(self._client.principal, page_id)
        except ScopeDenied:
            return None

    def context(self, *, session: str, budget: int) -> tuple[str, int]:
        """What is to be known before the next decision, and its tokens.

        Raises:
            MemstoreError: the store cannot be read.
        """
        with self._harness(session, budget) as harness:
            context = harness.assemble()
            return context.text, context.tokens

    def checkpoint(self, name: str, *, session: str) -> str:
        """Remember how the session stands.

        Raises:
            MemstoreError: it could not be written.
        """
        with self._harness(session) as harness:
            return harness.checkpoint(name)

    def rollback(self, checkpoint: str, *, session: str) -> None:
        """Go back to a checkpoint of the session.

        Raises:
            InvalidRequest: there is no such checkpoint in this session.
        """
        if self.page(checkpoint) is None:
            raise InvalidRequest(f"{checkpoint[:80]!r} is not a checkpoint of this session")
        with self._harness(session) as harness:
            harness.rollback(checkpoint)

    @contextmanager
    def _harness(self, session: str, budget: int = BUDGET) -> Iterator[Harness]:
        run = self._run(session)
        scope = live_scope(self._client.scope, "", run)
        harness = Harness(self._store, self._client.principal, scope=scope, session=run, budget=budget)
        harness.session_start()
        try:
            yield harness
        finally:
            harness.close()

    def _run(self, session: str) -> str:
        return run_id("mcp", self._client.principal.name, session)


def _shown(page: Page, score: float) -> Shown:
    return Shown(
        page=page.id,
        kind=page.kind,
        state=page.state.value,
        text=page.full if len(page.full) < 2_000 else page.forms.compressed[:4_000],
        score=score,
        created_at=page.created_at,
        session=page.session,
        rests_on=len(page.provenance.references),
    )
