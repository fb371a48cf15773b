"""What a client can do with its memory. The scope is the client's own; no argument can name another."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from instar.adapters.mcp.principals import Client
from instar.core.live import live_scope, run_id
from instar.core.recall import recall_of
from instar.core.runtime import Runtime
from instar.memstore import (
    Foresight,
    Harness,
    InvalidRequest,
    MemstoreError,
    Page,
    PageDraft,
    PageType,
    Provenance,
    ScopeDenied,
)
from instar.memstore.recall import Answer, Filters, Hit, Status
from instar.memstore.recall.ahead import Ahead
from instar.memstore.recall.layers import prime

BUDGET = 2_000
Kind = Literal["note", "message", "constraint", "plan", "preference"]
_one_at_a_time = threading.Lock()
"""The index of meaning belongs to one user at a time, also within a process."""
_WORST_FIRST = (Status.BACKEND_ERROR, Status.DENIED, Status.DEGRADED)
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
    """A page as a client sees it, with what lets it doubt the page."""

    model_config = ConfigDict(frozen=True)

    page: str
    kind: str
    state: str
    text: str
    score: float = 0.0
    created_at: datetime
    session: str | None
    support: int
    """How many recorded pages it rests on."""
    contradictions: list[str] = []
    superseded_by: str | None = None


class Recalled(BaseModel):
    """The answer to a recall. `status` is hit, no-match, denied, degraded or backend-error; `reasons` say why."""

    model_config = ConfigDict(frozen=True)

    status: str
    reasons: list[str]
    items: list[Shown]


class Memory:
    """The memory of one client."""

    def __init__(self, rt: Runtime, client: Client) -> None:
        self._rt, self._client = rt, client

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
        page = self._rt.store.get(self._client.principal, page_id)
        if page is None:
            raise InvalidRequest("the page could not be read back")
        return Written(page=page.id, version=page.version, sha256=page.digest)

    def recall(self, query: str, filters: Filters, *, session: str | None, limit: int) -> Recalled:
        """Pages that are about a query, in all that the client may read; without a query the newest.

        Raises:
            InstarError: recall cannot be used as it is configured.
        """
        if session:
            filters = replace(filters, session=self._run(session))
        if not query.strip():
            return self._newest(filters, limit)
        with _one_at_a_time, recall_of(self._rt) as recall:
            answers = [
                recall.search(self._client.principal, query, scope=grant, filters=filters, limit=limit)
                for grant in self._client.principal.grants
            ]
        return _together(answers, limit, ranked=True)

    def primed(self, task: str, *, limit: int) -> Recalled:
        """What was learned about a task, and the recent steps that this points to.

        Raises:
            InstarError: recall cannot be used as it is configured.
        """
        by = self._client.principal
        with _one_at_a_time, recall_of(self._rt) as recall:
            answers = [prime(recall, by, task, scope=grant, limit=(limit + 1) // 2).answer for grant in by.grants]
        return _together(answers, limit)

    def _newest(self, filters: Filters, limit: int) -> Recalled:
        by, tags = self._client.principal, filters.all_tags
        items: list[Shown] = []
        try:
            for grant in by.grants:
                found = self._rt.store.find(
                    by,
                    scope=grant,
                    kind=filters.kind,
                    state=filters.state,
                    tag=tags[0] if tags else None,
                    session=filters.session,
                    since=filters.since,
                    newest_first=True,
                )
                fitting = (page for page in found if set(tags) <= set(page.tags))
                items += [_page_shown(page) for page in islice(fitting, limit)]
        except MemstoreError as error:
            return Recalled(status=Status.BACKEND_ERROR.value, reasons=[str(error)], items=[])
        items.sort(key=lambda item: item.created_at, reverse=True)
        return Recalled(status=(Status.HIT if items else Status.NO_MATCH).value, reasons=[], items=items[:limit])

    def page(self, page_id: str) -> Page | None:
        """A page; None for one that does not exist or belongs to somebody else: there is no difference to see."""
        try:
            return self._rt.store.get(self._client.principal, page_id)
        except ScopeDenied:
            return None

    def context(self, *, session: str, budget: int, task: str = "") -> tuple[str, int]:
        """What is to be known before the next decision, and its tokens; with a task also what other sessions of the
        client know about it.

        Raises:
            MemstoreError: the store cannot be read.
            InstarError: recall cannot be used as it is configured.
        """
        if not task.strip():
            with self._harness(session, budget) as harness:
                context = harness.assemble()
                return context.text, context.tokens
        by, run = self._client.principal, self._run(session)
        with _one_at_a_time, recall_of(self._rt) as recall:
            ahead = Ahead(recall, by, scope=self._client.scope, session=run, task=task)
            with self._harness(session, budget, ahead) as harness:
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
    def _harness(self, session: str, budget: int = BUDGET, foresight: Foresight | None = None) -> Iterator[Harness]:
        run = self._run(session)
        scope = live_scope(self._client.scope, "", run)
        harness = Harness(
            self._rt.store, self._client.principal, scope=scope, session=run, budget=budget, foresight=foresight
        )
        harness.session_start()
        try:
            yield harness
        finally:
            harness.close()

    def _run(self, session: str) -> str:
        return run_id("mcp", self._client.principal.name, session)


def _together(answers: Sequence[Answer], limit: int, *, ranked: bool = False) -> Recalled:
    """The answers about several scopes as one; the worst thing that happened is said."""
    hits = [hit for answer in answers for hit in answer.hits]
    if ranked:
        hits.sort(key=lambda hit: -hit.score)
    statuses = {answer.status for answer in answers}
    worst = next((status for status in _WORST_FIRST if status in statuses), Status.NO_MATCH)
    status = Status.HIT if hits and worst is Status.NO_MATCH else worst
    reasons = [reason for answer in answers for reason in answer.reasons]
    return Recalled(
        status=status.value, reasons=list(dict.fromkeys(reasons)), items=[_shown(hit) for hit in hits[:limit]]
    )


def _shown(hit: Hit) -> Shown:
    return _page_shown(hit.page).model_copy(
        update={
            "score": hit.score,
            "support": hit.support,
            "contradictions": list(hit.contradictions),
            "superseded_by": hit.superseded_by,
        }
    )


def _page_shown(page: Page) -> Shown:
    return Shown(
        page=page.id,
        kind=page.kind,
        state=page.state.value,
        text=page.full if len(page.full) < 2_000 else page.forms.compressed[:4_000],
        created_at=page.created_at,
        session=page.session,
        support=len(page.provenance.references),
    )
