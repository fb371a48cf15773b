"""Links between pages, as pages: nothing is changed at either end, and who wrote a link and when stays on record."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from instar.memstore.backend import View
from instar.memstore.pages import Page, PageDraft, PageType, Provenance, digest_of
from instar.memstore.recall.documents import LINK, mark
from instar.memstore.recall.index import Postings, Wanted

_MOST = 50


class Relation(StrEnum):
    """What a link says of its source, seen from its target."""

    CONTRADICTS = "contradicts"
    SAME_AS = "same-as"
    SUMMARISES = "summarises"


@dataclass(frozen=True, slots=True)
class Link:
    """One link. Of two pages that contradict each other the source is the newer one."""

    relation: Relation
    source: str
    target: str


def link_draft(link: Link, why: str) -> PageDraft:
    """The page of a link; the same link has the same id."""
    name = digest_of(f"{link.relation}\0{link.source}\0{link.target}")[:24]
    return PageDraft(
        kind=LINK,
        type=PageType.EVIDENCE,
        id=f"link-{name}",
        content={"relation": link.relation.value, "source": link.source, "target": link.target, "why": why},
        provenance=Provenance("maintenance", (link.source, link.target)),
        tags=(f"link:{link.source}", f"link:{link.target}"),
    )


def link_of(page: Page) -> Link | None:
    """The link that a page holds; None when it holds none."""
    relation, source, target = (page.content.get(name) for name in ("relation", "source", "target"))
    if page.kind != LINK or not isinstance(source, str) or not isinstance(target, str):
        return None
    return Link(Relation(relation), source, target) if relation in list(Relation) else None


def links_at(
    postings: Postings, view: View, grants: Collection[str], pages: Iterable[Page], now: int
) -> dict[str, list[Link]]:
    """The links at each of these pages, as far as they lie under the grants."""
    found: dict[str, list[Link]] = {}
    asked = list(pages)
    marks: dict[str, list[str]] = {}
    for page in asked:
        marks.setdefault(page.scope.partition("/")[0], []).append(mark("tag", f"link:{page.id}"))
    seqs: set[int] = set()
    for root, ends in marks.items():
        seqs.update(*(held.tolist() for held in postings.each(Wanted(root, now=now), ends, _MOST)))
    if not seqs:
        return found
    ids = {page.id for page in asked}
    for page in view.heads(list(postings.names(seqs).values())).values():
        link = link_of(page)
        granted = any(page.scope == grant or page.scope.startswith(grant + "/") for grant in grants)
        if link is not None and granted and not page.hidden:
            for end in {link.source, link.target} & ids:
                found.setdefault(end, []).append(link)
    return found
