"""Redaction at the door: a secret is never staged, journalled, indexed or logged."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from pydantic import JsonValue

from instar.memstore.quick_look import QuickLook, literal
from instar.memstore.secret_patterns import OWN, SecretPattern, is_secret_name, is_secret_value, third_party

_MARK = "[REDACTED:"


@dataclass(frozen=True, slots=True)
class Finding:
    """What kind of secret was found, and where. Never the secret."""

    kind: str
    place: str


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without its secrets."""

    text: str
    findings: tuple[Finding, ...] = ()


class Redactor(Protocol):
    """Replaces secrets in text by `[REDACTED:<kind>]` and keeps the rest as it is."""

    def redact(self, text: str, place: str = "") -> Redacted:
        """The text without secrets. Applying it twice is applying it once."""
        ...

    def suspicious(self, text: str) -> bool:
        """A quick look: False promises that `redact` would change nothing in any part of this text."""
        ...


class Look(Protocol):
    """Looks for several expressions at once."""

    def may_hold(self, text: str) -> bool:
        """False promises that none of them matches anywhere in the text."""
        ...


class PatternRedactor:
    """The default: known token formats, keys, headers, passwords in addresses, assignments. Never entropy."""

    def __init__(
        self,
        patterns: tuple[SecretPattern, ...] | None = None,
        look: Callable[[Iterable[str]], Look] = QuickLook,
    ) -> None:
        by_anchor: dict[str, list[tuple[int, SecretPattern]]] = {}
        for number, pattern in enumerate(OWN + third_party() if patterns is None else patterns):
            for anchor in pattern.anchors:
                by_anchor.setdefault(anchor, []).append((number, pattern))
        groups: dict[str, list[str]] = {}
        self._by_anchor: list[tuple[str, str, list[tuple[int, SecretPattern]]]] = []
        for anchor, found in by_anchor.items():
            group, expression = _group(anchor, found[0][1])
            groups.setdefault(group, []).append(expression)
            self._by_anchor.append((group, anchor, found))
        self._looks = [(group, look(expressions)) for group, expressions in groups.items()]

    def redact(self, text: str, place: str = "") -> Redacted:
        """The text without secrets, and what was found; the place is passed through to the findings."""
        findings: tuple[Finding, ...] = ()
        # Again after a change: what stood against a secret may have hidden where it ends.
        while spans := sorted(self._spans(text), key=lambda span: (span[0], -span[1])):
            redacted = _replace(text, spans, place)
            text, findings = redacted.text, findings + redacted.findings
        return Redacted(text, findings)

    def suspicious(self, text: str) -> bool:
        """Whether there is anything to replace; patterns whose anchors do not occur are never run."""
        return next(self._spans(text), None) is not None

    def _spans(self, text: str) -> Iterator[tuple[int, int, str]]:
        # One letter grows when it is lowered, and would shift what follows it.
        lowered = text.lower() if "\u0130" not in text else text.replace("\u0130", "i").lower()
        held = [group for group, look in self._looks if look.may_hold(lowered)]
        return self._spans_of(held, text, lowered) if held else iter(())

    def _spans_of(self, held: Sequence[str], text: str, lowered: str) -> Iterator[tuple[int, int, str]]:
        searched: set[int] = set()
        for group, anchor, patterns in self._by_anchor:
            at = lowered.find(anchor) if group in held else -1
            if at < 0:
                continue
            for number, pattern in patterns:
                if pattern.anchored:
                    matches = _matches_at(pattern.pattern, text, lowered, anchor, at)
                elif number in searched:
                    continue
                else:
                    searched.add(number)
                    matches = pattern.pattern.finditer(text)
                for match in matches:
                    start, end = pattern.span(match)
                    secret = text[start:end]
                    if _MARK not in secret and (pattern.accept is None or pattern.accept(secret)):
                        yield start, end, pattern.kind


def _group(anchor: str, pattern: SecretPattern) -> tuple[str, str]:
    """With which others an anchor is looked for, and how: ordinary words hold the short ones, a secret the others."""
    if pattern.hint:
        return pattern.hint, pattern.hint
    return ("short" if len(anchor) < 4 and anchor.isalnum() else "telling"), literal(anchor)


def _matches_at(pattern: re.Pattern[str], text: str, lowered: str, anchor: str, at: int) -> Iterator[re.Match[str]]:
    # Also inside an earlier match: that one may be turned down, and overlaps are joined later.
    while at >= 0:
        match = pattern.match(text, at)
        if match:
            yield match
        at = lowered.find(anchor, at + 1)


def _replace(text: str, spans: list[tuple[int, int, str]], place: str) -> Redacted:
    merged: list[tuple[int, int, str]] = []
    for start, end, kind in spans:
        if merged and start < merged[-1][1]:
            first, last, known = merged[-1]
            merged[-1] = (first, max(last, end), known)
        else:
            merged.append((start, end, kind))
    parts, at = [], 0
    for start, end, kind in merged:
        parts += [text[at:start], f"{_MARK}{kind}]"]
        at = end
    parts.append(text[at:])
    return Redacted("".join(parts), tuple(Finding(kind, place) for _, _, kind in merged))


@cache
def default_redactor() -> PatternRedactor:
    """The one default redactor of this process, built when first asked for."""
    return PatternRedactor()


def redact(text: str) -> Redacted:
    """A text without secrets, for logs and error messages."""
    return default_redactor().redact(text)


def spotless(redactor: Redactor, fields: Mapping[str, JsonValue], *texts: str) -> bool:
    """One quick look at JSON fields and texts together: True promises that redaction would change none of them.

    Raises:
        TypeError, AttributeError: something in it is neither JSON nor text.
        RecursionError: the fields are nested too deeply.
    """
    strings = list(texts)
    whole = fields if isinstance(fields, dict) else dict(fields)
    return not _collect(whole, strings) and not redactor.suspicious("\n".join(strings))


def redact_fields(
    redactor: Redactor, fields: Mapping[str, JsonValue], place: str
) -> tuple[dict[str, JsonValue], list[Finding]]:
    """JSON fields without secrets: in values, in names, and in fields that are secret by their name."""
    findings: list[Finding] = []
    if spotless(redactor, fields):
        return dict(fields), findings
    return _walk_fields(redactor, fields, place, findings), findings


def _collect(value: JsonValue, strings: list[str]) -> bool:
    """Gather every string; True when a field is sensitive by its name, which settles the question."""
    if isinstance(value, str):
        strings.append(value)
    elif isinstance(value, dict):
        for name, item in value.items():
            if is_secret_name(name):
                return True
            strings.append(name)
            if isinstance(item, str):  # nearly all are, and a call costs more than this question
                strings.append(item)
            elif _collect(item, strings):
                return True
    elif isinstance(value, list):
        return any(_collect(item, strings) for item in value)
    return False


def _walk(redactor: Redactor, value: JsonValue, place: str, findings: list[Finding]) -> JsonValue:
    if isinstance(value, str):
        redacted = redactor.redact(value, place)
        findings.extend(redacted.findings)
        return redacted.text
    if isinstance(value, list):
        return [_walk(redactor, item, f"{place}[{number}]", findings) for number, item in enumerate(value)]
    if isinstance(value, dict):
        return _walk_fields(redactor, value, place, findings)
    return value


def _walk_fields(
    redactor: Redactor, fields: Mapping[str, JsonValue], place: str, findings: list[Finding]
) -> dict[str, JsonValue]:
    result: dict[str, JsonValue] = {}
    for name, value in fields.items():
        key = redactor.redact(name, f"{place}.<name>")
        findings.extend(key.findings)
        kept = key.text
        while kept in result:
            kept += "'"  # two names that differ only in their secret stay two fields
        below = f"{place}.{kept}"
        if isinstance(value, str) and is_secret_name(name) and is_secret_value(value) and _MARK not in value:
            findings.append(Finding("field", below))
            result[kept] = f"{_MARK}field]"
        else:
            result[kept] = _walk(redactor, value, below, findings)
    return result
