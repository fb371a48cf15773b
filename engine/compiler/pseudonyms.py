"""Replaces what identifies people and records in cases, consistently: equal values stay equal, and look alike.

Names, e-mail addresses, phone numbers, postal codes and ids are found by the key they stand under or by their form.
A replacement keeps the form (letters, digits, separators), so that a program that only passes values on does the
same as before. Words that are common to many tasks (`credit_card_…`, `delivered`), dates, paths and the constants of
the plan are kept. The original recordings stay in the store.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Sequence
from datetime import date, timedelta

from pydantic import JsonValue

from instar.engine.compiler.identifying import DATE, identifying, is_numbered
from instar.engine.session import Session
from instar.skills.cases import Case, RecordedCall

COMMON_TASKS = 3
"""A word inside ids that occurs in this many tasks, under the ids of different values, is part of their form."""
MIN_IN_TEXT = 4
"""Characters a value must have to be replaced inside longer text."""

_RUN = re.compile(r"[A-Za-z]+|\d+")
_TOKEN = re.compile(r"[\w#@.+\-]+")


class Pseudonyms:
    """One mapping for all cases of a package. `salt` makes it another one for another package.

    `sessions` say which words are common; `keep` are strings that must stay: the plan's constants and paths.
    """

    def __init__(self, *, salt: str, sessions: Sequence[Session] = (), keep: Collection[str] = ()) -> None:
        self._salt = salt
        self._keep = frozenset(keep)
        self._common = _common_words(sessions)
        self._values: dict[str, str] = {}
        self._words: dict[str, str] = {}
        self._used: set[str] = set()

    def cases(self, cases: Sequence[Case]) -> list[Case]:
        """The cases with everything that identifies replaced by the same mapping."""
        found: dict[str, bool] = {}
        for case in cases:
            for part in _parts(case):
                for text, personal in identifying(part):
                    found[text] = found.get(text, False) or personal
        originals = {text: personal for text, personal in found.items() if text not in self._keep}
        for text in sorted(originals):
            for word in _RUN.findall(text) if originals[text] else ():
                self._words.setdefault(word.casefold(), "")
        self._used |= set(originals) | {word for word in self._words if word}
        for text in sorted(originals):
            self._values[text] = self._replacement(text)
        return [self._case(case) for case in cases]

    def _case(self, case: Case) -> Case:
        return Case(
            name=case.name,
            arguments=self._object(case.arguments),
            calls=[
                RecordedCall(
                    tool=call.tool,
                    arguments=self._object(call.arguments),
                    result=self._value(call.result),
                    error=None if call.error is None else self._text(call.error),
                )
                for call in case.calls
            ],
            returns=self._value(case.returns),
            raises=None if case.raises is None else self._text(case.raises),
        )

    def _object(self, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        return {self._values.get(key, key): self._value(item) for key, item in value.items()}

    def _value(self, value: JsonValue) -> JsonValue:
        if isinstance(value, dict):
            return self._object(value)
        if isinstance(value, list):
            return [self._value(item) for item in value]
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return int(self._values.get(str(value), str(value)))
        return value

    def _text(self, text: str) -> str:
        if text in self._values or text in self._keep:
            return self._values.get(text, text)
        return _TOKEN.sub(self._token, text) if len(text) > MIN_IN_TEXT else text

    def _token(self, match: re.Match[str]) -> str:
        token = match[0]
        core = token.rstrip(".-")
        if len(core) >= MIN_IN_TEXT and core in self._values:
            return self._values[core] + token[len(core) :]
        return token

    def _replacement(self, text: str) -> str:
        for attempt in range(1_000):
            made = self._made(text, attempt)
            if made not in self._used:
                self._used.add(made)
                return made
        return text

    def _made(self, text: str, attempt: int) -> str:
        if DATE.fullmatch(text):
            moved = date(1950, 1, 1) + timedelta(days=self._number(text, attempt) % 18_000)
            return moved.isoformat() + text[10:]
        local, at, domain = text.partition("@")
        if at and domain:
            return f"{self._runs(local, attempt)}@example.{'com' if domain.startswith('example.') else 'org'}"
        return self._runs(text, attempt)

    def _runs(self, text: str, attempt: int) -> str:
        separated = bool(re.search(r"[_\-.\s]", text)) or not any(char.isdigit() for char in text)

        def replaced(match: re.Match[str]) -> str:
            run = match[0]
            if run.isdigit():
                return self._digits(run, attempt)
            known = self._words.get(run.casefold())
            if known is None and (run.casefold() in self._common or (separated and len(run) < 3)):
                return run
            if separated or known is not None:
                return _cased(self._word(run.casefold(), attempt), run)
            return self._letters(run, attempt) if len(text) > len(run) + 1 else run

        return _RUN.sub(replaced, text)

    def _digits(self, run: str, attempt: int) -> str:
        number = self._number(run, attempt)
        first = str(1 + number % 9) if run[0] != "0" else "0"
        return (first + str(number)[::-1] * 3)[: len(run)] if len(run) > 1 else str(number % 10)

    def _letters(self, run: str, attempt: int) -> str:
        number = self._number(run, attempt)
        made = []
        for char in run:
            number, place = divmod(number, 26)
            made.append(chr(ord("A" if char.isupper() else "a") + place))
        return "".join(made)

    def _word(self, word: str, attempt: int) -> str:
        if attempt == 0 and self._words.get(word):
            return self._words[word]
        number = self._number(word, attempt)
        made = ""
        for _ in range(2 if len(word) < 6 else 3):
            number, place = divmod(number, 85)
            made += "bdfghklmnprstvwyz"[place % 17] + "aeiou"[place // 17]
        if attempt == 0:
            taken = set(self._words.values())
            step = 1
            while made in taken or made in self._words:
                made, step = self._word(word, step), step + 1
            self._words[word] = made
        return made

    def _number(self, text: str, attempt: int) -> int:
        digest = hashlib.sha256(f"{self._salt}\0{attempt}\0{text}".encode()).digest()
        return int.from_bytes(digest[:16])


def _parts(case: Case) -> Iterator[JsonValue]:
    yield case.arguments
    for call in case.calls:
        yield call.arguments
        yield call.result
    yield case.returns


def _cased(word: str, like: str) -> str:
    if like.isupper() and len(like) > 1:
        return word.upper()
    return word.capitalize() if like[:1].isupper() else word


def _common_words(sessions: Sequence[Session]) -> frozenset[str]:
    """Words that stand inside ids of many values and tasks: `credit`, `card`, `flight`."""
    tasks: dict[str, set[str]] = {}
    values: dict[str, set[str]] = {}
    for session in sessions:
        for call, result in session.exchanges():
            for value in (call.arguments, result.value if result else None):
                for text in _ids(value, 0):
                    for word in re.findall(r"[A-Za-z]+", text):
                        tasks.setdefault(word.casefold(), set()).add(session.task)
                        values.setdefault(word.casefold(), set()).add(re.sub(r"[A-Za-z]+", "", text, count=0))
    return frozenset(
        word for word in tasks if len(tasks[word]) >= COMMON_TASKS and len(values[word]) >= 2 * COMMON_TASKS
    )


def _ids(value: JsonValue, depth: int) -> Iterator[str]:
    if isinstance(value, dict) and depth < 12:
        for key, item in value.items():
            if is_numbered(key):
                yield key
            yield from _ids(item, depth + 1)
    elif isinstance(value, list) and depth < 12:
        for item in value:
            yield from _ids(item, depth + 1)
    elif isinstance(value, str) and is_numbered(value):
        yield value
