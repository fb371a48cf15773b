"""From a page to what an index keeps of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import JsonValue

from instar.memstore.pages import Page
from instar.memstore.quoting import OWN_TOOL, without_recalled
from instar.memstore.recall.answers import Filters
from instar.memstore.recall.words import counts

LINK = "link"
"""Kind of the pages that tie two others together."""
WORDLESS = frozenset({LINK, "checkpoint", "distillation"})
"""Kinds that say nothing to search for; they are found by their marks only."""
MOST = 255
"""Term counts are kept in one byte."""
_EMBEDDED = 4_000
_NAMELESS = frozenset({"index", "at", "step", "turn", "span", "call_id", "fingerprint", "toolset"})
"""Fields that place a page and say nothing about its matter."""


@dataclass(frozen=True, slots=True)
class Doc:
    """A page as an index sees it."""

    seq: int
    id: str
    scope: str
    session: int
    """A hash; 0 stands for none."""
    created: int
    """Microseconds since 1970."""
    expires: int | None
    words: Mapping[str, int]
    marks: tuple[str, ...]
    """What it can be narrowed by, as hashes; see `mark`."""
    digest: str
    text: str
    """What is turned into a vector; empty for none."""


def doc_of(page: Page) -> Doc:
    """The document of a page."""
    text = "" if page.kind in WORDLESS else spoken(page)
    return Doc(
        seq=page.seq,
        id=page.id,
        scope=page.scope,
        session=session_key(page.scope, page.session),
        created=micros(page.created_at),
        expires=None if page.expires_at is None else micros(page.expires_at),
        words={word: min(count, MOST) for word, count in counts(text).items()},
        marks=_marks(page),
        digest=hashlib.sha256(text[:_EMBEDDED].encode()).hexdigest(),
        text=text[:_EMBEDDED],
    )


def spoken(page: Page) -> str:
    """What a page says in words: its text, or the values of its content, and its tags; nothing of what was recalled
    into it, which would be found again as if it had been said once more."""
    said = without_recalled(page.text or "\n".join(_values(_own(page.content))))
    named = " ".join(tag.partition(":")[2] for tag in page.tags if tag.startswith("tool:"))
    return f"{said}\n{named}" if named and named not in said else said


def _own(content: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """Without what a tool of our own memory answered."""
    tool = content.get("tool")
    if isinstance(tool, str) and OWN_TOOL.search(tool):
        return {name: value for name, value in content.items() if name not in ("value", "error")}
    return content


def _values(content: JsonValue | Mapping[str, JsonValue]) -> Iterator[str]:
    match content:
        case str():
            yield content
        case bool() | None:
            pass
        case int() | float():
            yield str(content)
        case list():
            for value in content:
                yield from _values(value)
        case _:
            for name, value in content.items():
                if name not in _NAMELESS:
                    yield from _values(value)


def session_key(scope: str, session: str | None) -> int:
    """A number for a session of a scope root; 0 for none."""
    if session is None:
        return 0
    digest = hashlib.blake2b(f"{root_of(scope)}\0{session}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True) or 1


def root_of(scope: str) -> str:
    """The first segment of a scope path."""
    return scope.partition("/")[0]


def mark(field: str, value: str) -> str:
    """A term that no text holds, for a property of a page."""
    return "_" + hashlib.blake2b(f"{field}\0{value}".encode(), digest_size=8).hexdigest()


def _marks(page: Page) -> tuple[str, ...]:
    given: list[tuple[str, str | None]] = [
        ("kind", page.kind),
        ("type", page.type.value),
        ("state", page.state.value),
        ("session", page.session),
        ("parent", page.parent),
        ("speaker", speaker_of(page)),
        *(("tag", tag) for tag in page.tags),
        *(("scope", path) for path in paths_above(page.scope)),
    ]
    return tuple(mark(field, value) for field, value in given if value is not None)


def speaker_of(page: Page) -> str | None:
    """Who said what the page holds; None where it is not somebody's words."""
    speaker = page.content.get("speaker")
    return speaker if isinstance(speaker, str) else None


def paths_above(scope: str) -> Iterable[str]:
    """The scope and those above it, without the root, which every term carries."""
    parts = scope.split("/")
    return ("/".join(parts[:n]) for n in range(2, len(parts) + 1))


def marks_wanted(scope: str, filters: Filters) -> tuple[str, ...]:
    """The marks that all pages within a scope and these filters carry."""
    given: Sequence[tuple[str, str | None]] = [
        ("scope", scope if "/" in scope else None),
        ("session", filters.session),
        ("parent", filters.parent),
        ("speaker", filters.speaker),
        *(("tag", tag) for tag in filters.all_tags),
        ("kind", filters.kind),
        ("state", filters.state.value if filters.state else None),
        ("type", filters.type.value if filters.type else None),
    ]
    return tuple(mark(field, value) for field, value in given if value is not None)


def micros(time: datetime) -> int:
    """Microseconds since 1970."""
    return int(time.timestamp() * 1_000_000)
