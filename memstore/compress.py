"""Shortening without a model: sentences by what they carry, JSON by its shape. Deterministic, English and Chinese."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice
from typing import Protocol

from pydantic import JsonValue

SHORT = 320
"""Characters below which a text is not worth shortening."""
_SHARE = 0.35
_STRING, _ITEMS, _NAMES = 160, 3, 24
"""What is left of a JSON value: characters of a string, items of a list, fields of a mapping."""
_LOOKED_AT = 20_000
_UNIT = re.compile(r"[^\n.!?。！？；]*(?:[.!?](?=\s)|[.!?]\Z|[。！？；]|\n|\Z|[.!?])[ \t]*")
_WORD = re.compile(r"[A-Za-z0-9_]{3,}|[\u3400-\u9fff]")
_TELLING = re.compile(
    r"\d|error|fail|exception|denied|must|never|always|because|错误|失败|必须|因为|不能", re.IGNORECASE
)


class Compressor(Protocol):
    """Shortens text offline. The result is never longer than the text, and the same for the same text."""

    def compress(self, text: str) -> str:
        """The text, or a shorter one that keeps its most telling parts in their order."""
        ...


class ExtractiveCompressor:
    """Keeps whole sentences or lines: the first, and then those whose words recur or that carry numbers or failures.

    Scores are mean word frequencies (Luhn, 1958), so that long sentences win nothing by length alone. Of a very
    long text the head and the tail are looked at.
    """

    def compress(self, text: str) -> str:
        """About a third of the text; the text itself where it is short."""
        if len(text) <= SHORT:
            return text
        if len(text) > _LOOKED_AT:
            half = _LOOKED_AT // 2
            text = f"{text[:half]}\n[…]\n{text[-half:]}"
        first: dict[str, str] = {}  # what is said twice tells nothing the second time
        for unit in _UNIT.findall(text):
            first.setdefault(unit.strip(), unit)
        units = [unit for said, unit in first.items() if said]
        words = [_WORD.findall(unit.lower()) for unit in units]
        frequency = Counter(word for unit in words for word in unit)
        scores = []
        for number, (unit, found) in enumerate(zip(units, words, strict=True)):
            score = sum(frequency[word] for word in found) / (len(found) + 2)
            if _TELLING.search(unit):
                score *= 1.5
            if number == 0:
                score += 1e9
            scores.append((-score, number))
        room = int(len(text) * _SHARE)
        kept: set[int] = set()
        for _, number in sorted(scores):
            if len(units[number]) <= room or not kept:
                kept.add(number)
                room -= len(units[number])
        shortened = "".join(unit if unit.endswith("\n") else unit + " " for n, unit in enumerate(units) if n in kept)
        limit = max(SHORT, len(text) // 2)
        return _elide(re.sub(r"[ \t]+", " ", shortened).strip(), limit)


def _elide(text: str, limit: int) -> str:
    """The head and the tail of a text, with the number of characters left out."""
    if len(text) <= limit:
        return text
    note = f" […{len(text) - limit}…] "
    head = max((limit - len(note)) * 2 // 3, 1)
    tail = max(limit - len(note) - head, 0)
    return text[:head] + note + (text[-tail:] if tail else "")


def shorten_value(value: JsonValue) -> JsonValue:
    """A JSON value of the same shape: long strings elided, long lists and mappings cut with a count of the rest."""
    if isinstance(value, str):
        return value if len(value) <= _STRING else _elide(value, _STRING)
    if isinstance(value, list):
        short: list[JsonValue] = [shorten_value(item) for item in value[:_ITEMS]]
        return short if len(value) <= _ITEMS else [*short, f"… {len(value) - _ITEMS} more"]
    if isinstance(value, dict):
        kept = {name: shorten_value(item) for name, item in islice(value.items(), _NAMES)}
        if len(value) > _NAMES:
            kept["…"] = f"{len(value) - _NAMES} more"
        return kept
    return value
