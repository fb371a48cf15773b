"""Pages: the unit of memory, its types and their floors, and its four representations."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum

from pydantic import JsonValue

from instar.memstore.records import quick

ERASED = "erased"
"""The only field of the content of an erased page."""


class PageType(StrEnum):
    """The residency class: what of the page must survive."""

    BOOTSTRAP = "bootstrap"
    CONSTRAINT = "constraint"
    PLAN = "plan"
    PREFERENCE = "preference"
    EVIDENCE = "evidence"
    CONVERSATION = "conversation"


class Pin(StrEnum):
    """How firmly a page is held in the working set."""

    NONE = "none"
    SOFT = "soft"
    HARD = "hard"


class State(StrEnum):
    """Where a page stands, seen from what it records."""

    PENDING = "pending"
    SUCCESS = "success"
    ERROR = "error"
    INTERMEDIATE = "intermediate"


class Level(IntEnum):
    """A fidelity; a higher one carries everything that a lower one does."""

    NONE = 0
    POINTER = 1
    STRUCTURED = 2
    COMPRESSED = 3
    FULL = 4


@dataclass(frozen=True, slots=True)
class Residency:
    """What a page type promises: the lowest level it may shrink to, its way down, and the pin it starts with."""

    floor: Level
    path: tuple[Level, ...]
    """The levels it may have, ascending; the first is the floor."""
    pin: Pin


_WHOLE = (Level.STRUCTURED, Level.FULL)
_STEPWISE = (Level.POINTER, Level.STRUCTURED, Level.COMPRESSED, Level.FULL)

RESIDENCY: Mapping[PageType, Residency] = {
    PageType.BOOTSTRAP: Residency(Level.STRUCTURED, _WHOLE, Pin.HARD),
    PageType.CONSTRAINT: Residency(Level.STRUCTURED, _WHOLE, Pin.HARD),
    PageType.PLAN: Residency(Level.STRUCTURED, _WHOLE, Pin.SOFT),
    PageType.PREFERENCE: Residency(Level.POINTER, _STEPWISE, Pin.NONE),
    PageType.EVIDENCE: Residency(Level.POINTER, _STEPWISE, Pin.NONE),
    PageType.CONVERSATION: Residency(Level.POINTER, _STEPWISE, Pin.NONE),
}


@quick
@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a page comes from: words for people, and the pages it rests on, which must resolve."""

    source: str = ""
    references: tuple[str, ...] = ()


@quick
@dataclass(frozen=True, slots=True)
class PageDraft:
    """A page before it is written.

    `content` holds typed fields, `text` an optional verbatim text. The `full` representation is the text, or
    where that is empty the canonical JSON of the content. Without an `id` the store chooses one; a chosen id
    makes an append repeatable. `pin` defaults to that of the type, `created_at` to the time of the commit.
    """

    kind: str
    type: PageType
    content: Mapping[str, JsonValue] = field(default_factory=dict)
    text: str = ""
    id: str | None = None
    state: State = State.SUCCESS
    pin: Pin | None = None
    provenance: Provenance = Provenance()
    importance: float = 0.5
    tags: tuple[str, ...] = ()
    parent: str | None = None
    session: str | None = None
    created_at: datetime | None = None
    expires_at: datetime | None = None


@quick
@dataclass(frozen=True, slots=True)
class Representations:
    """The four representations of one page version, with their token counts, made when it is written."""

    full: str
    compressed: str
    structured: str
    pointer: str
    tokens: tuple[int, int, int, int]
    """Of pointer, structured, compressed, full."""
    digest: str
    """SHA-256 of the bytes of `full`, in hexadecimal."""

    def at(self, level: Level) -> str:
        """The text at a level; empty at NONE."""
        return ("", self.pointer, self.structured, self.compressed, self.full)[level]

    def cost(self, level: Level) -> int:
        """Tokens at a level (o200k); 0 at NONE."""
        return (0, *self.tokens)[level]


@quick
@dataclass(frozen=True, slots=True)
class Page:
    """One committed version of a page. Earlier versions stay readable by their number.

    `seq` orders pages by first commit and is unique in a store; it is never derived from a clock.
    """

    id: str
    version: int
    kind: str
    type: PageType
    scope: str
    state: State
    pin: Pin
    content: Mapping[str, JsonValue]
    text: str
    provenance: Provenance
    importance: float
    tags: tuple[str, ...]
    parent: str | None
    session: str | None
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    author: str
    hidden: bool
    forms: Representations
    seq: int = 0

    @property
    def full(self) -> str:
        """The verbatim representation."""
        return self.forms.full

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes of `full`, in hexadecimal."""
        return self.forms.digest

    @property
    def handle(self) -> str:
        """What the pointer representation shows and `Store.resolve` takes."""
        return handle(self.id, self.version, self.digest)

    @property
    def floor(self) -> Level:
        """The lowest level this page may have in an assembled context."""
        return RESIDENCY[self.type].floor

    def expired(self, now: datetime) -> bool:
        """Whether the page is past its time."""
        return self.expires_at is not None and self.expires_at <= now


def handle(page_id: str, version: int, digest: str) -> str:
    """A deterministic handle on exactly these bytes."""
    return f"{page_id}@{version}#{digest[:12]}"


def _canonical_encoder() -> Callable[[object], str]:
    # Who goes round in circles ends like who nests too deeply: with a RecursionError.
    encoder = json.JSONEncoder(
        ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False, check_circular=False
    )
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return encoder.encode
    # `encode` makes this anew on every call, which takes about as long as encoding a small page.
    chunks = make(None, encoder.default, json.encoder.encode_basestring, None, ":", ",", True, False, False)
    return lambda value: "".join(chunks(value, 0))


_encode = _canonical_encoder()
_decode = json.JSONDecoder().raw_decode


def canonical(value: JsonValue | Mapping[str, JsonValue]) -> str:
    """JSON with sorted keys and no spaces: the same value is the same text.

    Raises:
        ValueError: NaN or an infinity, which JSON cannot say.
        TypeError: not a JSON value, or keys that are not all strings.
    """
    return _encode(value)


def parsed_fields(text: str) -> dict[str, JsonValue]:
    """The fields in canonical JSON."""
    fields: dict[str, JsonValue] = _decode(text)[0]
    return fields


def digest_of(text: str) -> str:
    """SHA-256 of the UTF-8 bytes, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()
