"""Links statements that say the same, and statements that contradict each other. No page is changed for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from instar.core import records
from instar.core.runtime import Runtime
from instar.memstore import Page
from instar.memstore.recall import Recall, link_draft
from instar.memstore.recall.documents import root_of
from instar.memstore.recall.likeness import Found, Statement, compare, rows_of, statement_of
from instar.memstore.recall.profile import PROFILE

COMPARED = (records.MEMORY, PROFILE, "note")
"""Kinds whose pages are compared with each other: statements, not records of what happened."""
LOOKED_BACK = 50_000
"""A new statement is compared with the newest so many of its kind in its scope."""
_CURSOR = "maintenance"
_CHUNK = 2_000
_IN_ONE_COMMIT = 200


def compare_new(rt: Runtime, recall: Recall) -> tuple[int, list[Found]]:
    """Compare what is new since the last time with what is like it; returns how many pages, and the new links.

    How far it has come is remembered when all links are written; what is cut off is done again, and writes each link
    once.

    Raises:
        MemstoreError: the store cannot be read or written.
        IndexFailed, IndexHeld, EmbedderFailed: there are no vectors to compare.
    """
    through = since = rt.store.cursor(_CURSOR)
    groups: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    while rows := rt.store.outbox(since=through, limit=_CHUNK):
        with rt.store.snapshot() as view:
            pages = view.heads(list(dict.fromkeys(row.page_id for row in rows))).values()
        for page in pages:
            if page.kind in COMPARED and not page.hidden and rt.principal.may(page.scope):
                groups[page.scope, page.kind].add(page.seq)
        through = rows[-1].seq
    linked: list[Found] = []
    for (scope, kind), new in sorted(groups.items()):
        statements = _statements(rt, scope, kind)
        rows_found = rows_of(lambda ids: _read(rt, ids), statements, root_of(scope), recall.upkeep.serving)
        linked += _write(rt, scope, compare(statements, new, rows_found))
    if through > since:
        rt.store.advance(_CURSOR, through)
    return sum(map(len, groups.values())), linked


def _statements(rt: Runtime, scope: str, kind: str) -> list[Statement]:
    pages = rt.store.find(rt.principal, scope=scope, kind=kind, exact=True, newest_first=True, limit=LOOKED_BACK)
    return [statement_of(page) for page in pages]


def _read(rt: Runtime, ids: Sequence[str]) -> Collection[Page]:
    return rt.store.get_many(rt.principal, ids).values()


def _write(rt: Runtime, scope: str, found: Iterator[Found]) -> list[Found]:
    """Write the links that are not there yet; one that somebody withdrew is not written again."""
    linked: list[Found] = []
    while part := list(islice(found, _IN_ONE_COMMIT)):
        drafts = {draft.id or "": (draft, one) for one in part for draft in (link_draft(one.link, one.why),)}
        known = rt.store.get_many(rt.principal, list(drafts))
        fresh = [pair for name, pair in drafts.items() if name not in known]
        if fresh:
            with rt.store.writeback(rt.principal, scope=scope) as batch:
                for draft, _ in fresh:
                    batch.append(draft)
            linked += [one for _, one in fresh]
    return linked
