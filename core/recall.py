"""Recall over the store of a runtime, and why a page counts for what it does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict

from instar.core.errors import NotFound, PartMissing, SourceMissing
from instar.core.progress import report
from instar.core.runtime import Runtime
from instar.core.verdicts import verdicts_of
from instar.memstore import InvalidRequest, Page
from instar.memstore.recall import (
    Answer,
    EmbedderFailed,
    Filters,
    IndexHeld,
    IndexState,
    Link,
    Recall,
    embedder_of,
    open_recall,
)
from instar.memstore.recall.ahead import AHEAD, kept_counts
from instar.memstore.recall.errors import RerankerFailed
from instar.memstore.recall.importance import importance_of
from instar.memstore.recall.links import link_of
from instar.memstore.recall.rerank import reranker_of
from instar.memstore.recall.rules import Rewriter, rewrite
from instar.memstore.recall.verdicts import verdicts_on

_SHOWN_LINKS = 50
_PATIENCE = 3.0
"""A command may take a moment to bring the index up to date."""


class Explanation(BaseModel):
    """Why a page counts for what it does, and what is known against it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    page: str
    importance: float
    written: float
    """The importance that whoever wrote the page gave it."""
    parts: dict[str, float]
    """What was added and taken away, by its reason."""
    links: list[str]
    """What other pages say about it."""
    indexed: bool


def recall_beside(rt: Runtime, *, patience: float = _PATIENCE) -> Recall:
    """Open recall; the caller closes it, before the store. A dry run looks at an index in memory and leaves that of
    the home alone. A search spends up to `patience` seconds on bringing the index up to date.

    Raises:
        SourceMissing: the setting `embedder` or `reranker` has no meaning.
        PartMissing: one of these needs something that is not there, or a model is to read queries and none is named.
        RecallError: the index can neither be opened nor made.
    """
    settings = rt.settings
    try:
        embedder = embedder_of(settings.embedder)
    except InvalidRequest as error:
        raise SourceMissing(str(error), "Correct the setting `embedder`") from error
    except EmbedderFailed as error:
        raise PartMissing(str(error), "Or use `wordllama`, which needs nothing") from error
    try:
        reranker = reranker_of(settings.reranker)
    except InvalidRequest as error:
        raise SourceMissing(str(error), "Correct the setting `reranker`") from error
    except RerankerFailed as error:
        raise PartMissing(str(error), "Or leave `reranker` empty, which needs nothing") from error
    return open_recall(
        rt.store,
        address="memory:" if rt.dry_run else settings.database,
        folder=None if rt.dry_run else settings.home / "index",
        embedder=embedder,
        server=settings.index_server,
        reranker=reranker,
        patience=patience,
        verdicts=lambda: verdicts_of(rt),
        rewriter=_rewriter(rt),
    )


@contextmanager
def recall_of(rt: Runtime) -> Iterator[Recall]:
    """The same for a block of work.

    Raises:
        As `recall_beside`.
    """
    with recall_beside(rt) as recall:
        yield recall


def _rewriter(rt: Runtime) -> Rewriter:
    if rt.settings.rewrite == "rules" or rt.asker is None:
        return rewrite
    from instar.core.rewriting import model_rewriter  # noqa: PLC0415  (the client takes seconds to import)

    return model_rewriter(rt.asker)


def search(rt: Runtime, query: str, *, filters: Filters, limit: int) -> Answer:
    """Look for pages below the scope of the installation; see `Recall.search`."""
    with recall_of(rt) as recall:
        return recall.search(rt.principal, query, scope=rt.settings.scope, filters=filters, limit=limit)


def reindex(rt: Runtime) -> IndexState:
    """Build the index anew, with progress.

    Raises:
        PartMissing: another process owns the index.
        RecallError: the index cannot be written.
    """
    with recall_of(rt) as recall:
        total = rt.store.count(rt.principal, scope=rt.settings.scope)
        report("reindex", total=total)
        try:
            state = recall.reindex(lambda done: report("reindex", done=min(done, total), total=total))
        except IndexHeld as error:
            raise PartMissing(str(error), "Nothing was lost; try again when it has ended") from error
        report("reindex", done=total, total=total)
        return state


def explain(rt: Runtime, page_id: str) -> Explanation:
    """What a page counts for, and why.

    Raises:
        NotFound: there is no such page.
    """
    page = rt.store.get(rt.principal, page_id)
    if page is None:
        raise NotFound(f"No page {page_id!r}", "`instar pages list` shows what there is")
    found = links_of(rt, page)
    with recall_of(rt) as recall:
        accesses = recall.upkeep.words.shown([page.seq]).get(page.seq, 0)
        said = verdicts_on(page, verdicts_of(rt))
        counted = importance_of(page, found, now=datetime.now(UTC), accesses=accesses, verdicts=said)
        answer = recall.search(rt.principal, page.full[:200] or page.id, scope=page.scope, literal=True, limit=50)
    return Explanation(
        page=page.id,
        importance=round(counted.value, 4),
        written=page.importance,
        parts={name: round(value, 4) for name, value in counted.parts.items()},
        links=[_said(link, page.id) for link in found],
        indexed=any(hit.page.id == page.id or page.id in hit.duplicates for hit in answer.hits),
    )


def links_of(rt: Runtime, page: Page) -> list[Link]:
    """The links at a page."""
    root = page.scope.partition("/")[0]
    scope = root if rt.principal.may(root) else rt.settings.scope
    tagged = rt.store.find(rt.principal, scope=scope, tag=f"link:{page.id}", limit=_SHOWN_LINKS)
    return [link for link in map(link_of, tagged) if link is not None]


def _said(link: Link, page_id: str) -> str:
    return f"it {link.relation} {link.target}" if link.source == page_id else f"{link.source} {link.relation} it"


def fetched_ahead(rt: Runtime) -> dict[str, dict[str, tuple[int, int]]]:
    """How many pages were fetched ahead by each way of guessing, and how many of them were of use, by scope.

    Raises:
        RecallError: the index cannot be read.
    """
    with recall_of(rt) as recall:
        scopes = [name.removeprefix(f"{AHEAD}:") for name in recall.upkeep.words.settings() if name.startswith(AHEAD)]
        return {scope: dict(kept_counts(recall, scope)[0]) for scope in sorted(scopes)}
