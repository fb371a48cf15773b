"""What is asked of recall, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from instar.memstore.pages import Page, PageType, State


class Status(StrEnum):
    """What an answer is. An empty one says why it is empty."""

    HIT = "hit"
    NO_MATCH = "no-match"
    DENIED = "denied"
    DEGRADED = "degraded"
    """A part of the index is missing or behind: the hits are right, and there may be more."""
    BACKEND_ERROR = "backend-error"


@dataclass(frozen=True, slots=True)
class Filters:
    """What pages must be, besides being about the query. None leaves a condition out."""

    kind: str | None = None
    type: PageType | None = None
    tool: str | None = None
    """Pages of calls of this tool."""
    state: State | None = None
    tags: tuple[str, ...] = ()
    """All of them."""
    session: str | None = None
    parent: str | None = None
    speaker: str | None = None
    """Who said it: `user` or `assistant`."""
    since: datetime | None = None
    """Inclusive, of the creation."""
    until: datetime | None = None
    """Exclusive."""

    @property
    def all_tags(self) -> tuple[str, ...]:
        """The tags, with that of the tool."""
        return (*self.tags, f"tool:{self.tool}") if self.tool else self.tags


@dataclass(frozen=True, slots=True)
class Hit:
    """A recalled page, with what one needs to doubt it."""

    page: Page
    score: float
    """Comparable within one answer only."""
    lexical_rank: int | None
    """Place by words, from 1; None where words did not find it."""
    vector_rank: int | None
    """Place by meaning, from 1."""
    support: int
    """How many pages it rests on, and further pages that say the same."""
    age: timedelta
    contradictions: tuple[str, ...] = ()
    """Pages that say otherwise."""
    superseded_by: str | None = None
    """The newest page that says otherwise, where that is newer than this one."""
    duplicates: tuple[str, ...] = ()
    """Pages left out of the answer because they say the same."""
    before: Page | None = None
    """What stands before it in its session, as context."""
    after: Page | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a search."""

    status: Status
    hits: tuple[Hit, ...] = ()
    reasons: tuple[str, ...] = ()
    """Why it is degraded, denied, or failed; for people."""
    text: str = ""
    """The words that were looked for, after the rules took out what became filters."""
    filters: Filters = field(default_factory=Filters)
    rules: tuple[str, ...] = ()
    """What the rules read out of the query, in words."""


@dataclass(frozen=True, slots=True)
class IndexState:
    """How the index stands against the store."""

    pages: int
    """Pages in the index of words."""
    lag: int
    """Changes that the index of words has not seen."""
    vectors: int
    vector_lag: int
    embedder: str
    reasons: tuple[str, ...] = ()
    """What is missing; empty when all is well."""
