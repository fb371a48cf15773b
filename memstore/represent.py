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
from instar.memstore.records import quick
from instar.memstore.tokens import Counted, count_below, count_tokens

_BRIEF = 120
_HINT = 40
_POINTER_FIELDS = ("tool", "status", "title", "name", "role", "speaker", "span")


@quick
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
        return {
            name: value for name, value in subject.content.items() if value is not None and _size(value) <= _BRIEF
        }


def _size(value: JsonValue) -> int:
    """Characters of what can be long."""
    if isinstance(value, str):
        return len(value)
    return len(canonical(value)) if isinstance(value, (list, dict)) else 0


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
        whole = Counted(full, count_tokens(full))
        line = self._pointer(subject, digest)
        pointer = Counted(line, count_tokens(line))
        structured = self._structured(subject, whole, pointer)
        compressed = self._compressed(subject, whole, pointer)
        tokens = (pointer.tokens, structured.tokens, compressed.tokens, whole.tokens)
        return Representations(full, compressed.text, structured.text, line, tokens, digest)

    def _compressed(self, subject: Subject, whole: Counted, pointer: Counted) -> Counted:
        if len(whole.text) <= SHORT:
            return whole
        if subject.text:
            return _shorter(whole, pointer, self._compressor.compress(whole.text))
        return _shorter(whole, pointer, canonical(shorten_value(dict(subject.content))))

    def _structured(self, subject: Subject, whole: Counted, pointer: Counted) -> Counted:
        if RESIDENCY[subject.type].floor == Level.STRUCTURED and not self._fields.chosen(subject):
            # Their floor is what the rest of the session depends on: all typed fields, or all of the text.
            typed = canonical(subject.content) if subject.content else whole.text
            return whole if typed == whole.text else Counted(typed, count_tokens(typed))
        fields = self._fields.key_fields(subject) or {"text": whole.text[:_BRIEF]}
        return _shorter(whole, pointer, canonical(fields))

    def _pointer(self, subject: Subject, digest: str) -> str:
        hints = [subject.kind]
        if subject.state != State.SUCCESS:
            hints.append(subject.state.value)
        content = subject.content
        for name in _POINTER_FIELDS:
            if name in content and isinstance(value := content[name], (str, int)) and value != "":
                hints.append(f"{name}={_hint(str(value))}")
        if subject.type == PageType.PREFERENCE:
            hints.append(f"scope={subject.scope}")
        if subject.type == PageType.CONVERSATION:
            hints.append(f"at={subject.created}")
        return f"[{handle(subject.id, subject.version, digest)} {' '.join(hints)}]"


def _shorter(whole: Counted, pointer: Counted, short: str) -> Counted:
    """What is short below the pointer; the whole where that is no shorter."""
    text = f"{pointer.text}\n{short}"
    if len(text) >= len(whole.text):
        return whole
    tokens = count_below(pointer, short)
    return Counted(text, tokens) if tokens < whole.tokens else whole


def _hint(value: str) -> str:
    """A short value on one line, without the brackets that end a pointer."""
    if len(value) <= _HINT and value.isidentifier():  # as most are
        return value
    line = " ".join(value[:_HINT].replace("[", "(").replace("]", ")").split())
    return line if line.isprintable() else "".join(letter for letter in line if letter.isprintable())
