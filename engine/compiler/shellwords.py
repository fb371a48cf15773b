"""Splits a shell command line into the words of its simple commands.

A linear scan that never fails: what it cannot make sense of becomes a word like any other. Nothing is expanded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_HEREDOC = re.compile(r"<<-?\s*(['\"]?)([A-Za-z_]\w*)\1")
_REDIRECT = re.compile(r"^\d*(>>?|<|>&|&>>?)")
_BARE_REDIRECT = re.compile(r"^\d*(>>?|<|&>>?)$")
_SEPARATORS = "|&;\n(){}"


@dataclass(frozen=True, slots=True)
class Words:
    """The words of one simple command. `masked`: what follows it hides its exit status."""

    words: tuple[str, ...]
    masked: bool


def split(text: str) -> list[Words]:
    """The simple commands of a command line in order, without redirections and here-documents."""
    return _Scanner(_without_heredocs(text)).run()


def _without_heredocs(text: str) -> str:
    kept: list[str] = []
    ends: list[str] = []
    for line in text.split("\n"):
        if ends:
            if line.strip() == ends[0]:
                ends.pop(0)
            continue
        ends = [match.group(2) for match in _HEREDOC.finditer(line)]
        kept.append(_HEREDOC.sub(" ", line))
    return "\n".join(kept)


@dataclass(slots=True)
class _Scanner:
    text: str
    position: int = 0
    quote: str = ""
    depth: int = 0
    word: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    found: list[Words] = field(default_factory=list)

    def run(self) -> list[Words]:
        while self.position < len(self.text):
            char = self.text[self.position]
            if self.quote:
                self.quoted(char)
            elif self.depth or (char == "(" and self.word and self.word[-1] == "$"):
                self.depth += (char == "(") - (char == ")")
                self.word.append(char)
            else:
                self.plain(char)
            self.position += 1
        self.end_command(masked=False)
        return self.found

    def quoted(self, char: str) -> None:
        if char == self.quote:
            self.quote = ""
        elif char == "\\" and self.quote == '"':
            self.escaped()
        else:
            self.word.append(char)

    def plain(self, char: str) -> None:
        if char in "'\"":
            self.quote = char
        elif char == "\\":
            self.escaped()
        elif char == "#" and not self.word:
            end = self.text.find("\n", self.position)
            self.position = (end if end >= 0 else len(self.text)) - 1
        elif char == "&" and self.redirects():
            self.word.append(char)
        elif char in _SEPARATORS:
            self.separator(char)
        elif char.isspace():
            self.end_word()
        else:
            self.word.append(char)

    def escaped(self) -> None:
        self.position += 1
        # An escaped line end joins lines; an escaped semicolon ends `find -exec` and is no word to keep.
        if self.text[self.position : self.position + 1] not in {"", "\n", ";"}:
            self.word.append(self.text[self.position])

    def redirects(self) -> bool:
        return bool(self.word and self.word[-1] in "<>") or self.text[self.position + 1 : self.position + 2] == ">"

    def separator(self, char: str) -> None:
        pair = self.text[self.position : self.position + 2]
        if pair in {"&&", "||"}:
            self.position += 1
        # Of `a && b` a failing `a` shows; of `a; b`, `a | b`, `a || b` and `a &` it does not.
        shows = pair == "&&" or char in "(){}" or not self.text[self.position + 1 :].strip(" \n;")
        self.end_command(masked=not shows)

    def end_word(self) -> None:
        if self.word:
            self.words.append("".join(self.word))
            self.word.clear()

    def end_command(self, *, masked: bool) -> None:
        self.end_word()
        kept: list[str] = []
        skip = False
        for word in self.words:
            if skip or _BARE_REDIRECT.match(word):
                skip = not skip
            elif not _REDIRECT.match(word):
                kept.append(word)
        if kept:
            self.found.append(Words(tuple(kept), masked))
        self.words.clear()
