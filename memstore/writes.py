"""What goes through the only door for writes, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from pydantic import JsonValue

from instar.memstore.pages import PageDraft, Pin, Representations, State
from instar.memstore.records import quick
from instar.memstore.redaction import Finding


class Op(StrEnum):
    """What an entry does to its page."""

    APPEND = "append"
    MERGE = "merge"
    REPLACE = "replace"


class ReasonCode(StrEnum):
    """Why an entry was rejected, in the order in which validation looks."""

    SCHEMA = "SCHEMA"
    TOO_LARGE = "TOO_LARGE"
    PROVENANCE = "PROVENANCE"
    SCOPE_DENIED = "SCOPE_DENIED"
    STALE_VERSION = "STALE_VERSION"
    DESTRUCTIVE_OP = "DESTRUCTIVE_OP"
    PIN_VIOLATION = "PIN_VIOLATION"
    SECRET = "SECRET"  # noqa: S105  (a reason, not a password)
    DUPLICATE = "DUPLICATE"


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes beyond which an entry is `TOO_LARGE`."""

    page_bytes: int = 8 * 1024 * 1024
    """UTF-8 bytes of content (as canonical JSON) and text together."""
    batch_entries: int = 100_000
    references: int = 20_000
    tags: int = 64


@dataclass(frozen=True, slots=True)
class Change:
    """What a merge or a replace changes beside the content; None leaves a thing as it is."""

    state: State | None = None
    pin: Pin | None = None
    importance: float | None = None
    tags: tuple[str, ...] | None = None
    expires_at: datetime | None = None
    references: tuple[str, ...] = ()
    """Added to the references that the page has; references are never taken away."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """One entry that did not pass, with its reason."""

    page_id: str
    op: Op
    code: ReasonCode
    detail: str

    def __str__(self) -> str:
        return f"{self.op} {self.page_id}: {self.code} ({self.detail})"


@quick
@dataclass(frozen=True, slots=True)
class Entry:
    """One staged write, redacted. `problem` is set when it can never pass, whatever the store holds."""

    op: Op
    page_id: str
    content: Mapping[str, JsonValue] = field(default_factory=dict)
    content_json: str = "{}"
    text: str | None = None
    draft: PageDraft | None = None
    forms: Representations | None = None
    base: int = 0
    """The version that the writer read (merge) or expects (replace)."""
    change: Change = Change()
    drop: frozenset[str] = frozenset()
    generated: bool = False
    """Whether the store chose the id."""
    problem: Rejection | None = None


@quick
@dataclass(frozen=True, slots=True)
class Receipt:
    """What a batch did. It exists only when everything in it is durable."""

    batch: str
    committed: Mapping[str, int] = field(default_factory=dict)
    """The version that each page has after the batch, unchanged ones included."""
    unchanged: tuple[str, ...] = ()
    """Pages that already were as the batch wanted them."""
    duplicate: bool = False
    """The key was committed before: this is the receipt of then, and nothing was written now."""
    findings: tuple[Finding, ...] = ()
    """Secrets that were replaced on the way in: kind and place only."""


class JournalStatus(StrEnum):
    """What became of an entry."""

    STAGED = "staged"
    COMMITTED = "committed"
    UNCHANGED = "unchanged"
    REJECTED = "rejected"
    ABANDONED = "abandoned"
    """Not applied because another entry of its batch was rejected, or because its session was given up."""
    MAINTAINED = "maintained"
    """Done by the maintenance door: expired, archived, erased, hidden, shown."""


@quick
@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One line of the journal. It never holds a secret, and holds a value only where that was rejected."""

    at: datetime
    batch: str
    actor: str
    scope: str
    page_id: str
    op: str
    status: JournalStatus
    version: int = 0
    code: ReasonCode | None = None
    detail: str = ""
    digest: str = ""
    """SHA-256 of the bytes of `full` of the version that was written."""
    value: str = ""
    seq: int = 0


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """A committed batch, found again by its key."""

    id: str
    scope: str
    key: str
    digest: str
    actor: str
    at: datetime
    receipt: Mapping[str, int] = field(default_factory=dict)
    unchanged: tuple[str, ...] = ()
