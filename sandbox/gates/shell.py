"""Shell scripts taken apart into the commands they would run, without running or expanding anything.

A reader of POSIX shell and the usual bash: quotes, expansions, nested commands, pipes, lists, compound commands,
functions, here-documents. What it cannot follow is an error, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from instar.sandbox.gates.shellwords import Expansion, ShellSyntaxError, Word, Words

MAX_DEPTH = 30
MAX_VARIABLES = 100
"""Scripts with more are not looked into for values that are known."""
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]]*\])?\+?=", re.ASCII)
_REDIRECT = re.compile(r"(?:\d{1,3}|\{\w{1,64}\})?(<<<|<<-|<<|<>|<&|<(?!\()|&>>|&>|>>|>\||>&|>(?!\())", re.ASCII)
_OPERATOR = re.compile(r";;&|;;|;&|;|&&|&|\|\||\|&|\||\(|\)")
_LEADING = frozenset({"if", "then", "elif", "else", "while", "until", "do", "{", "!"})
"""Words before a command that are none themselves."""
_CLOSING = frozenset({"fi", "done", "esac", "}"})
_SETTERS = frozenset({
    "read", "mapfile", "readarray", "printf", "getopts", "let", "unset", "export", "declare", "local", "typeset",
    "readonly",
})  # fmt: skip
"""Commands that set variables which their arguments name."""


@dataclass(frozen=True, slots=True)
class Redirect:
    """Where a stream goes or comes from; of a here-document `target` is its text."""

    operator: str
    target: Word

    @property
    def writes(self) -> bool:
        """Whether it changes a file."""
        return ">" in self.operator and not re.fullmatch(r"\d+|-", self.target.text)


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command: assignments before it, its words, and what its streams are tied to."""

    line: int
    words: tuple[Word, ...]
    assignments: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[Redirect, ...] = ()
    piped: bool = False
    """Whether its input is another command's output."""
    background: bool = False


@dataclass(slots=True)
class Script:
    """Everything a script would run, in order of writing, and the functions it defines."""

    commands: list[Command] = field(default_factory=list)
    functions: dict[str, int] = field(default_factory=dict)


def parse_shell(text: str, line: int = 1) -> Script:
    """Read a script whose first line is number `line`.

    Raises:
        ShellSyntaxError: it is no shell script, or one that cannot be followed.
    """
    script = Script()
    _Reader(text, line, script, 0).read()
    return script


@dataclass(slots=True)
class _Pending:
    """The command that is being read."""

    words: list[Word] = field(default_factory=list)
    assignments: list[tuple[str, Word]] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)
    line: int = 0
    piped: bool = False


class _Reader:
    """Reads one text; nested commands have readers of their own and add to the same script."""

    def __init__(self, text: str, line: int, script: Script, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise ShellSyntaxError(line, "commands are nested too deeply")
        self._words = Words(text, line)
        self._script, self._depth = script, depth
        self._now = _Pending()
        self._documents: list[tuple[str, bool, bool]] = []
        self._cases: list[bool] = []
        """For each open `case`: whether a pattern comes next."""
        self._parentheses = 0

    def read(self) -> None:
        """Read to the end."""
        source = self._words
        while True:
            source.skip_blanks()
            if source.at_end():
                break
            if source.peek() == "\n":
                source.take("\n")
                self._finish()
                self._read_documents()
            elif source.peek() == "#":
                source.skip_comment()
            elif self._cases and self._cases[-1] and not self._now.words:
                self._pattern()
            elif self._now.words and self._now.words[0].text == "[[" and self._now.words[-1].text != "]]":
                self._note(source.word(inside_test=True))
            else:
                self._element()
        self._finish()
        if self._documents or self._cases or self._parentheses:
            raise ShellSyntaxError(source.line, "something is opened and never closed")

    def _element(self) -> None:
        source = self._words
        redirect = source.match(_REDIRECT)
        if redirect is not None:
            self._redirect(redirect)
            return
        operator = source.match(_OPERATOR)
        if operator is None:
            self._note(source.word())
            return
        source.take(operator[0])
        match operator[0]:
            case "(" if self._loop_or_nothing() and source.peek() == "(":
                self._nested(source.arithmetic())
                self._now.words.clear()
            case "(" if len(self._now.words) == 1 and source.take_if(")"):
                self._define(self._now.words.pop())
            case "(" if len(self._now.words) == 2 and self._now.words[0].text == "function" and source.take_if(")"):
                self._define(self._now.words.pop())
                self._now.words.clear()
            case "(" if not self._now.words:
                self._parentheses += 1
            case ")" if self._parentheses:
                self._finish()
                self._parentheses -= 1
            case ";;" | ";&" | ";;&" if self._cases:
                self._finish()
                self._cases[-1] = True
            case "|" | "|&":
                self._finish()
                self._now.piped = True
            case "&":
                self._finish(background=True)
            case ";" | "&&" | "||":
                self._finish()
            case other:
                raise ShellSyntaxError(source.line, f"an unexpected {other!r}")

    def _loop_or_nothing(self) -> bool:
        return len(self._now.words) < 2 and [word.text for word in self._now.words] in ([], ["for"])

    def _note(self, found: Word) -> None:
        """Add a word to the command, or let it shape what follows."""
        now = self._now
        now.line = now.line or found.line
        for expansion in found.expansions:
            self._nested(expansion)
        assigned = None if now.words else _ASSIGNMENT.match(found.raw)
        if assigned is not None:
            now.assignments.append((assigned[1], found.after(len(assigned[0]))))
            return
        if not now.words and found.raw == found.text:
            if found.text in _LEADING:
                return
            if found.text in _CLOSING:
                if found.text == "esac" and self._cases:
                    self._cases.pop()
                return
        now.words.append(found)
        if len(now.words) > 3:
            return
        match [word.text for word in now.words]:
            case ["case", _, "in"]:
                now.words.clear()
                self._cases.append(True)
            case ["function", name] if self._words.peek() != "(":
                self._script.functions[name] = found.line
                now.words.clear()

    def _pattern(self) -> None:
        source = self._words
        source.take_if("(")
        while not source.take_if(")"):
            source.skip_blanks()
            if source.take_if("|"):
                continue
            found = source.word()
            for expansion in found.expansions:
                self._nested(expansion)
            if found.raw == "esac":
                self._cases.pop()
                return
            source.skip_blanks()
        self._cases[-1] = False

    def _define(self, name: Word) -> None:
        self._script.functions[name.text] = name.line

    def _redirect(self, found: re.Match[str]) -> None:
        source, now = self._words, self._now
        source.take(found[0])
        source.skip_blanks()
        target = source.word()
        now.line = now.line or target.line
        operator = found[1]
        if operator in ("<<", "<<-"):
            self._documents.append((target.text, operator == "<<-", target.raw != target.text))
            now.redirects.append(Redirect(operator, target))
            return
        for expansion in target.expansions:
            self._nested(expansion)
        now.redirects.append(Redirect(operator, target))

    def _finish(self, *, background: bool = False) -> None:
        now, self._now = self._now, _Pending()
        words = tuple(now.words)
        if words and words[0].text in ("for", "select") and len(words) > 1:
            # What the loop goes over is what its variable may be.
            for word in words[3:]:
                now.assignments.append((words[1].text, word))
            words = ()
        if words or now.assignments or now.redirects:
            self._script.commands.append(
                Command(
                    now.line, words, tuple(now.assignments), tuple(now.redirects), now.piped, background=background
                )
            )

    def _read_documents(self) -> None:
        """The here-documents that the finished line announced; their texts take the place of their delimiters."""
        documents, self._documents = self._documents, []
        texts = []
        for delimiter, indented, quoted in documents:
            document = self._words.document(delimiter, indented=indented, literal=quoted)
            for expansion in document.expansions:
                self._nested(expansion)
            texts.append(document)
        if texts:
            self._fill(texts)

    def _fill(self, texts: list[Word]) -> None:
        commands = self._script.commands
        for place in range(len(commands) - 1, -1, -1):
            redirects = list(commands[place].redirects)
            for number in range(len(redirects) - 1, -1, -1):
                if redirects[number].operator in ("<<", "<<-") and texts:
                    redirects[number] = Redirect("<<text", texts.pop())
            found = commands[place]
            commands[place] = Command(
                found.line, found.words, found.assignments, tuple(redirects), found.piped, found.background
            )
            if not texts:
                return

    def _nested(self, expansion: Expansion) -> None:
        if expansion.command is not None:
            _Reader(expansion.command, expansion.line, self._script, self._depth + 1).read()
        for inner in expansion.inner:
            self._nested(inner)


def settled(text: str, script: Script) -> Iterator[tuple[str, Word]]:
    """Variables that are set exactly once, in a way that nothing else in the script can change.

    A name that stands anywhere else without a `$` may be set there too (`read`, `printf -v`, arithmetic, a text that
    is run), and so may every name where another file is read in.
    """
    found: dict[str, list[Word]] = {}
    for command in script.commands:
        if command.words and command.words[0].text in (".", "source", "eval"):
            return
        if command.words and command.words[0].text in _SETTERS and any(not word.literal for word in command.words):
            return
        for name, value in command.assignments:
            found.setdefault(name, []).append(value)
    for name, values in found.items() if len(found) <= MAX_VARIABLES else ():
        others = re.findall(rf"(?<![\w$])(?<!\$\{{){name}\b|\$\{{{name}:?=", text, re.ASCII)
        if len(values) == 1 and len(others) == 1:
            yield name, values[0]
