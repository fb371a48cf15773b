"""Makes the four representations of a page when it is written, never under pressure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from instar.memstore.compress import SHORT, Compressor, ExtractiveCompressor, shorten_value
from instar.memstore.pages import (
    RESIDENCY,
    Level,
    PageType,
    Representations,
    State,
    canonical,
    digest_of,
    handle,
)
from instar.memstore.tokens import count_tokens

_BRIEF = 120
_HINT = 40
_POINTER_FIELDS = ("tool", "status", "title", "name", "role", "speaker", "span")


@dataclass(frozen=True, slots=True)
class Subject:
    """What representations are made of."""

    id: str
    version: int
    kind: str
    type: PageType
    scope: str
    state: State
    content: Mapping[str, JsonValue]
    text: str
    created: str


class KeyFields(Protocol):
    """Says what a page must hold, and which of its fields must survive in its structured form."""

    def unfit(self, subject: Subject) -> str:
        """Why this is no page of its kind; empty when it is."""
        ...

    def chosen(self, subject: Subject) -> bool:
        """Whether they were named for such pages, rather than taken by default."""
        ...

    def key_fields(self, subject: Subject) -> Mapping[str, JsonValue]:
        """The fields, in the order in which they are shown."""
        ...


class BriefFields:
    """The default: every top-level field that is short, in the order given."""

    def unfit(self, subject: Subject) -> str:
        """Every page fits."""
        return ""

    def chosen(self, subject: Subject) -> bool:
        """Nobody named them."""
        return False

    def key_fields(self, subject: Subject) -> Mapping[str, JsonValue]:
        """Scalars and short strings as they are; larger values shortened when the page must keep its structure."""
        return {name: brief for name, value in subject.content.items() if (brief := _brief(value)) is not None}


def _brief(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return value if len(value) <= _BRIEF else None
    if isinstance(value, (list, dict)):
        text = canonical(value)
        return value if len(text) <= _BRIEF else None
    return value


class Representer:
    """Makes representations from a compressor and the key fields of each kind and tool."""

    def __init__(self, compressor: Compressor | None = None, fields: KeyFields | None = None) -> None:
        self._compressor = compressor or ExtractiveCompressor()
        self._fields = fields or BriefFields()

    def unfit(self, subject: Subject) -> str:
        """Why this is no page of its kind; empty when it is."""
        return self._fields.unfit(subject)

    def represent(self, subject: Subject, content_json: str) -> Representations:
        """All four. What is shortened starts with the pointer, so that the whole can be asked for; none of the
        shortened forms costs more tokens than `full`, the pointer of a very short page excepted."""
        full = subject.text or content_json
        digest = digest_of(full)
        tokens_full = count_tokens(full)
        pointer = self._pointer(subject, digest)
        structured, tokens_structured = self._structured(subject, full, tokens_full, pointer)
        compressed, tokens_compressed = self._compressed(subject, full, tokens_full, pointer)
        return Representations(
            full=full,
            compressed=compressed,
            structured=structured,
            pointer=pointer,
            tokens=(count_tokens(pointer), tokens_structured, tokens_compressed, tokens_full),
            digest=digest,
        )

    def _compressed(self, subject: Subject, full: str, tokens_full: int, pointer: str) -> tuple[str, int]:
        if len(full) <= SHORT:
            return full, tokens_full
        short = self._compressor.compress(full) if subject.text else canonical(shorten_value(dict(subject.content)))
        return _shorter(f"{pointer}\n{short}", full, tokens_full)

    def _structured(self, subject: Subject, full: str, tokens_full: int, pointer: str) -> tuple[str, int]:
        if RESIDENCY[subject.type].floor == Level.STRUCTURED and not self._fields.chosen(subject):
            # Their floor is what the rest of the session depends on: all typed fields, or all of the text.
            whole = canonical(subject.content) if subject.content else full
            return (whole, tokens_full) if whole == full else (whole, count_tokens(whole))
        fields = self._fields.key_fields(subject)
        brief = canonical(fields) if fields else canonical({"text": full[:_BRIEF]})
        return _shorter(f"{pointer}\n{brief}", full, tokens_full)

    def _pointer(self, subject: Subject, digest: str) -> str:
        hints = [subject.kind]
        if subject.state != State.SUCCESS:
            hints.append(subject.state.value)
        for name in _POINTER_FIELDS:
            value = subject.content.get(name)
            if isinstance(value, (str, int)) and value != "":
                hints.append(f"{name}={_hint(str(value))}")
        if subject.type == PageType.PREFERENCE:
            hints.append(f"scope={subject.scope}")
        if subject.type == PageType.CONVERSATION:
            hints.append(f"at={subject.created}")
        return f"[{handle(subject.id, subject.version, digest)} {' '.join(hints)}]"


def _shorter(text: str, full: str, tokens_full: int) -> tuple[str, int]:
    """The text with its tokens, or `full` where the text is no shorter."""
    if len(text) >= len(full):
        return full, tokens_full
    tokens = count_tokens(text)
    return (text, tokens) if tokens < tokens_full else (full, tokens_full)


def _hint(value: str) -> str:
    """A short value on one line, without the brackets that end a pointer."""
    line = " ".join(value[:_HINT].replace("[", "(").replace("]", ")").split())
    return line if line.isprintable() else "".join(letter for letter in line if letter.isprintable())
