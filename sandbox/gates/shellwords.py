"""Words of a shell script: quotes removed, and every expansion in them named."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]", re.ASCII)
_META = frozenset(" \t\n;&|<>()")
_ARRAY = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=\Z", re.ASCII)
MAX_BRACES = 20
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}


class ShellSyntaxError(ValueError):
    """A script that cannot be followed."""

    def __init__(self, line: int, reason: str) -> None:
        self.line, self.reason = line, reason
        super().__init__(line, reason)

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Expansion:
    """Something that the shell would replace: a variable, or the output of a command."""

    line: int
    name: str = ""
    command: str | None = None
    guarded: bool = False
    """`${NAME:?}`: the shell stops where it is empty."""
    quoted: bool = False
    default: str | None = None
    inner: tuple[Expansion, ...] = ()


@dataclass(frozen=True, slots=True)
class Word:
    """One word. `text` is without quotes, and has its expansions as they are written."""

    line: int
    text: str
    raw: str
    expansions: tuple[Expansion, ...] = ()
    pattern: bool = False
    """Whether the shell would look for files, or make several words of it."""
    hidden: bool = False
    """Whether letters are written as numbers, or quoted one by one."""

    @property
    def literal(self) -> bool:
        """Whether it means exactly its text."""
        return not self.expansions and not self.pattern

    def after(self, count: int) -> Word:
        """The word without its first characters, which are neither quoted nor expanded."""
        return replace(self, text=self.text[count:], raw=self.raw[count:])


class Words:
    """A text and a place in it."""

    def __init__(self, text: str, line: int) -> None:
        self._text, self._at = text.replace("\r\n", "\n"), 0
        self.line = line

    def at_end(self) -> bool:
        """Whether everything was read."""
        return self._at >= len(self._text)

    def peek(self, ahead: int = 0) -> str:
        """A character, or nothing at the end."""
        return self._text[self._at + ahead : self._at + ahead + 1]

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """What stands here, if it is of that form; nothing is taken."""
        return pattern.match(self._text, self._at)

    def take(self, text: str) -> str:
        """Go past a text that was seen here."""
        self._at += len(text)
        self.line += text.count("\n")
        return text

    def take_if(self, text: str) -> bool:
        """Go past the text if it stands here."""
        if self._text.startswith(text, self._at):
            self.take(text)
            return True
        return False

    def skip_blanks(self) -> None:
        """Go past blanks and continued lines."""
        while not self.at_end() and (self.peek() in " \t" or self._text.startswith("\\\n", self._at)):
            self.take(self.peek() if self.peek() != "\\" else "\\\n")

    def skip_comment(self) -> None:
        """Go to the end of the line."""
        end = self._text.find("\n", self._at)
        self._at = len(self._text) if end < 0 else end

    def word(self, *, inside_test: bool = False) -> Word:
        """The next word. Inside `[[ … ]]` operators are words as well.

        Raises:
            ShellSyntaxError: there is none, or its quotes do not end.
        """
        begun, line = self._at, self.line
        parts: list[str] = []
        found: list[Expansion] = []
        pattern = hidden = False
        while not self.at_end():
            char = self.peek()
            if char in "<>" and self.peek(1) == "(" and not parts:
                self.take(char + "(")
                found.append(Expansion(self.line, command=self._balanced_command()))
                parts.append(f"{char}(…)")
            elif char == "(" and _ARRAY.fullmatch(self._text[begun : self._at]):
                self.take(char)
                found += self._array()
                parts.append("(…)")
                pattern = True
            elif char in _META:
                if not (inside_test and not parts and char not in " \t\n"):
                    break
                parts.append(self.take(char))
                break
            elif char == "\\":
                self.take(char)
                hidden = hidden or self.peek().isalnum()
                parts.append("" if self.peek() == "\n" else self.peek() or char)
                self.take(self.peek())
            elif char == "'":
                parts.append(self._single())
            elif char == '"':
                self.take(char)
                parts.append(self._double(found))
            elif char == "$" and self.peek(1) in ("'", '"'):
                self.take(char)  # before a text to translate, the sign goes away
                parts.append(self._escaped() if self.peek() == "'" else "")
                hidden = True
            elif char in "$`":
                parts.append(self._expansion(found, quoted=False))
            else:
                pattern = pattern or char in "*?["
                parts.append(self.take(char))
        raw = self._text[begun : self._at]
        if not raw:
            raise ShellSyntaxError(self.line, f"an unexpected {self.peek()!r}" if self.peek() else "an early end")
        text = "".join(parts)
        pattern = pattern or _braces(raw)
        inner = raw[1:-1]
        hidden = hidden or (("'" in inner or '"' in inner) and text.replace("-", "").replace("_", "").isalnum())
        return Word(line, text, raw, tuple(found), pattern, hidden)

    def document(self, delimiter: str, *, indented: bool, literal: bool) -> Word:
        """The lines up to the delimiter.

        Raises:
            ShellSyntaxError: it never comes.
        """
        line, lines = self.line, list[str]()
        while not self.at_end():
            end = self._text.find("\n", self._at)
            one = self._text[self._at : len(self._text) if end < 0 else end]
            self.take(one + ("" if end < 0 else "\n"))
            if (one.lstrip("\t") if indented else one) == delimiter:
                text = "\n".join(lines)
                found: list[Expansion] = []
                if not literal:
                    inner = Words(text + '"', line)
                    inner._double(found, document=True)
                return Word(line, text, text, tuple(found))
            lines.append(one)
        raise ShellSyntaxError(line, f"the here-document {delimiter[:40]!r} does not end")

    def arithmetic(self) -> Expansion:
        """Behind `(` of `((`: up to `))`; what is expanded in it counts."""
        self.take("(")
        depth, found = 2, list[Expansion]()
        while depth:
            char = self._next("an arithmetic expression")
            if char in "$`":
                self._expansion(found, quoted=True)
                continue
            depth += (char == "(") - (char == ")")
            self.take(char)
        return Expansion(self.line, inner=tuple(found))

    def _next(self, what: str) -> str:
        if self.at_end():
            raise ShellSyntaxError(self.line, f"{what} does not end")
        return self.peek()

    def _single(self) -> str:
        end = self._text.find("'", self._at + 1)
        if end < 0:
            raise ShellSyntaxError(self.line, "a quotation does not end")
        return self.take(self._text[self._at : end + 1])[1:-1]

    def _escaped(self) -> str:
        """`$'…'`, with the common escapes resolved; those by number stay, and make the word hidden."""
        self.take("'")
        parts: list[str] = []
        while (char := self._next("a quotation")) != "'":
            self.take(char)
            if char == "\\":
                escaped = self._next("a quotation")
                self.take(escaped)
                char = _ESCAPES.get(escaped, escaped if escaped in "'\"\\?" else "\\" + escaped)
            parts.append(char)
        self.take("'")
        return "".join(parts)

    def _double(self, found: list[Expansion], *, document: bool = False) -> str:
        parts: list[str] = []
        while True:
            char = self._next("a quotation")
            if char == '"' and not (document and self._at + 1 < len(self._text)):
                self.take(char)
                return "".join(parts)
            if char == "\\" and self.peek(1) in ("$", "`", '"', "\\", "\n"):
                self.take(char)
                parts.append("" if self.peek() == "\n" else self.peek())
                self.take(self.peek())
            elif char in "$`":
                parts.append(self._expansion(found, quoted=True))
            else:
                parts.append(self.take(char))

    def _expansion(self, found: list[Expansion], *, quoted: bool) -> str:
        begun, line = self._at, self.line
        if self.take_if("`"):
            parts: list[str] = []
            while (char := self._next("a command in backquotes")) != "`":
                self.take(char)
                if char == "\\" and self.peek() in ("`", "\\", "$"):
                    char = self.take(self.peek())
                parts.append(char)
            self.take("`")
            found.append(Expansion(line, command="".join(parts), quoted=quoted))
        elif self.take_if("$(("):
            self._at -= 1
            found.append(replace(self.arithmetic(), quoted=True))
        elif self.take_if("$("):
            found.append(Expansion(line, command=self._balanced_command(), quoted=quoted))
        elif self.take_if("${"):
            found.append(self._braced(line, quoted=quoted, depth=0))
        else:
            self.take("$")
            name = self.match(_NAME)
            if name is not None:
                self.take(name[0])
                found.append(Expansion(line, name=name[0], quoted=quoted))
        return self._text[begun : self._at]

    def _braced(self, line: int, *, quoted: bool, depth: int) -> Expansion:
        if depth > MAX_BRACES:
            raise ShellSyntaxError(line, "expansions are nested too deeply")
        indirect = self.take_if("!")
        self.take_if("#")
        name = self.match(_NAME)
        if name is not None:
            self.take(name[0])
        begun, inner = self._at, list[Expansion]()
        while (char := self._next("an expansion")) != "}":
            if char == "'" and not quoted:
                self._single()
            elif char == '"':
                self.take(char)
                self._double(inner)
            elif char == "\\":
                self.take(char + self.peek(1))
            elif char == "$" and self.peek(1) == "{":
                self.take("${")
                inner.append(self._braced(self.line, quoted=quoted, depth=depth + 1))
            elif char in "$`":
                self._expansion(inner, quoted=quoted)
            else:
                self.take(char)
        rest = self._text[begun : self._at]
        self.take("}")
        default = rest[2:] if rest.startswith(":-") and not inner else None
        return Expansion(
            line, "!" + name[0] if indirect and name else name[0] if name else "", None,
            guarded=rest.startswith(":?"), quoted=quoted, default=default, inner=tuple(inner),
        )  # fmt: skip

    def _balanced_command(self) -> str:
        """Behind `$(`: the text up to its `)`. Words are read, so that one in quotes does not end it."""
        begun, depth = self._at, 1
        while True:
            char = self._next("a command in parentheses")
            if char == "#" and self._text[self._at - 1] in " \t\n;(":
                self.skip_comment()
            elif char == ")":
                depth -= 1
                self.take(char)
                if depth == 0:
                    return self._text[begun : self._at - 1]
            elif char == "(":
                depth += 1
                self.take(char)
            elif char in _META:
                self.take(char)
            else:
                self.word()

    def _array(self) -> list[Expansion]:
        found: list[Expansion] = []
        while True:
            self.skip_blanks()
            if self.take_if(")"):
                return found
            if self._next("an array") == "\n":
                self.take("\n")
            elif self.peek() == "#":
                self.skip_comment()
            else:
                found += self.word().expansions


def _braces(raw: str) -> bool:
    found = re.findall(r"(?<!\$)\{([^{}\s]*)\}", raw)
    return any("," in inside or ".." in inside for inside in found)
