"""Whether a sentence repeats, word by word and at some length, what a tool answered.

What a page, a mail or a file says is a stranger's word. A memory or a requirement may tell that it was read; where it
repeats whole clauses of it, an instruction would come along, in whatever words it is given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from instar.engine.session import ResultStatus, Step, ToolResult

RUN = 6
"""Words in a row that nobody has in common with a stranger by chance."""
RUN_OF_HAN = 12
"""Chinese characters in a row."""
READ = 40_000
"""Characters of one answer that are looked at."""
READ_IN_ALL = 5_000_000
_TOKEN = re.compile(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+")
_HAN = re.compile(r"[\u4e00-\u9fff]")


@dataclass(frozen=True, slots=True)
class Sayings:
    """Every run of words in the answers of tools."""

    runs: frozenset[int] = frozenset()

    @classmethod
    def of(cls, texts: Iterable[str]) -> Sayings:
        """From texts; beyond five million characters no more is read."""
        runs: set[int] = set()
        left = READ_IN_ALL
        for text in texts:
            runs.update(_runs(text[: min(READ, left)]))
            left -= len(text[:READ])
            if left <= 0:
                break
        return cls(frozenset(runs))

    def repeated_in(self, text: str) -> bool:
        """Whether a text has a run of words in common with them."""
        return not self.runs.isdisjoint(_runs(text))


def answers_of(steps: Sequence[Step]) -> Iterator[str]:
    """The prose that tools answered with; an error message is the tool's own word, and may be repeated."""
    for step in steps:
        if isinstance(step, ToolResult) and step.status is ResultStatus.OK:
            yield from prose_in(step.value)


def prose_in(value: JsonValue) -> Iterator[str]:
    """Every text of a value that is long enough to hold a clause."""
    if isinstance(value, dict):
        for item in value.values():
            yield from prose_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from prose_in(item)
    elif isinstance(value, str) and len(value) >= RUN_OF_HAN:
        yield value


def _runs(text: str) -> Iterator[int]:
    tokens = _TOKEN.findall(text.casefold())
    for start, token in enumerate(tokens):
        length = RUN_OF_HAN if _HAN.match(token) else RUN
        if start + length <= len(tokens):
            yield hash(tuple(tokens[start : start + length]))
