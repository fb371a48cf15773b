"""What a recipe's commands would do, judged one by one; everything that is run is listed for the reviewer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Literal

from instar.sandbox.gates import programs
from instar.sandbox.gates.interpreters import code_words, interpreter_findings
from instar.sandbox.gates.programrules import Known, Seen, program_findings, write_findings
from instar.sandbox.gates.shell import Command, Redirect, Script, parse_shell, settled
from instar.sandbox.gates.shellwords import Word
from instar.sandbox.report import Finding

Severity = Literal["info", "low", "elevated", "high"]
MAX_DEPTH: Final = 8
MAX_LISTED: Final = 200
_SHOWN: Final = 160
_FUNCTION: Final = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
_ARGUMENTS: Final = frozenset({"$@", "${@}", "$*", "$1", "${1}"})
_SHADOWED: Final = programs.FORBIDDEN | programs.NETWORK | programs.SHELLS | frozenset({
    "cd", "git", "rm", "cp", "mv", "test", "echo", "printf", "read", "exit", "set", "export", "source", "trap",
    "kill",
})  # fmt: skip
_HOME_DOTS: Final = re.compile(r"(?:~|\$\{?HOME\}?)/\.")
_SIMPLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))", re.ASCII)
_TEMPORARY: Final = ("/tmp/", "/dev/shm/", "/var/tmp/")  # noqa: S108 — paths in the draft


def review_shell(path: str, text: str, *, granted: frozenset[str], line: int = 1) -> Iterator[Finding]:
    """Findings about one script, or one block of commands whose first line is number `line`.

    Raises:
        ShellSyntaxError: it cannot be followed.
    """
    script = parse_shell(text, line)
    reviewer = CommandReviewer(path, granted, text, script)
    for command in script.commands:
        reviewer.review(command)
    reviewer.functions()
    unique = {(found.line, found.rule, found.message): found for found in reviewer.findings}
    yield from sorted(unique.values(), key=lambda found: (found.line, found.rule))


class CommandReviewer:
    """Judges the commands of one file and collects what it finds."""

    def __init__(self, path: str, granted: frozenset[str], text: str = "", script: Script | None = None) -> None:
        self.findings: list[Finding] = []
        self._path = path
        self._script = script or Script()
        values = dict(settled(text, self._script))
        self._constants = {name: value.text for name, value in values.items() if value.literal}
        made = {
            name
            for name, value in values.items()
            if any(re.match(r"\s*mktemp\b", found.command or "") for found in value.expansions)
        }
        self._known = Known(self._resolved, made, granted)
        self._written: set[str] = set()
        self._listed: set[str] = set()
        self._runs_arguments = any(
            command.words and command.words[0].text in _ARGUMENTS for command in self._script.commands
        )

    def review(self, command: Command, depth: int = 0) -> None:
        """Judge one command and what it would run in turn."""
        for name, value in command.assignments:
            self._variable(name, value, command.line)
        for redirect in command.redirects:
            self._redirect(redirect, command.line)
        for word in command.words:
            self._word(word, command.line)
        if command.background:
            self._add(command.line, "goes on in the background", "background", "elevated")
        if command.words:
            self._list(command)
            self._run(command, depth)

    def functions(self) -> None:
        """Judge the names that the script gives to its own functions."""
        for name, line in self._script.functions.items():
            if name in _SHADOWED or not _FUNCTION.fullmatch(name):
                self._add(line, f"redefines {name!r}", "shadowing", "high")

    def _add(self, line: int, message: str, rule: str, severity: Severity) -> None:
        self.findings.append(Finding(message=message[:300], file=self._path, line=line, rule=rule, severity=severity))

    def _note(self, line: int, seen: Iterator[Seen]) -> None:
        for found in seen:
            self._add(line, found.message, found.rule, found.severity)

    def _list(self, command: Command) -> None:
        shown = " ".join(word.raw for word in command.words).replace("\n", " ")
        if shown not in self._listed and len(self._listed) < MAX_LISTED and command.words[0].text != "[[":
            self._listed.add(shown)
            self._add(command.line, f"runs: {shown[:_SHOWN]}", "command", "info")

    def _variable(self, name: str, value: Word, line: int) -> None:
        if name in programs.VARIABLES:
            self._add(line, f"sets {name}, which makes other programs load or run something", "environment", "high")
        elif name == "PATH":
            anywhere = any(not part.startswith(("/", "$")) for part in value.text.split(":"))
            severity: Severity = "high" if anywhere else "elevated"
            self._add(line, "changes where programs are looked for", "environment", severity)
        self._word(value, line)

    def _word(self, word: Word, line: int) -> None:
        if programs.CREDENTIALS.search(word.text):
            self._add(line, f"reaches credentials: {word.text[:80]!r}", "credential", "high")
        elif _HOME_DOTS.match(word.text):
            severity: Severity = "high" if word.pattern else "elevated"
            self._add(line, f"reaches hidden files of the home folder: {word.text[:80]!r}", "credential", severity)
        elif re.fullmatch(r"(?:\./)?\.env(?:\.local|\.production)?", word.text):
            self._add(line, "reaches a file that usually holds secrets", "credential", "elevated")
        elif re.fullmatch(r"(?:~|\$\{?HOME\}?)/?", word.text):
            self._add(line, "reaches the whole home folder", "home", "elevated")
        if re.search(r"/dev/(?:tcp|udp)/", word.text):
            self._add(line, "opens a connection", "network-not-granted", "high")
        if word.hidden and re.search(r"\\[xuU0-7]", word.text):
            self._add(line, f"letters written as numbers: {word.raw[:80]}", "obfuscated-command", "high")

    def _redirect(self, redirect: Redirect, line: int) -> None:
        if redirect.operator in ("<<text", "<<<"):
            return  # what reads it decides
        self._word(redirect.target, line)
        if redirect.writes:
            self._note(line, write_findings(redirect.target, self._known))
            if redirect.target.literal:
                self._written.add(redirect.target.text.removeprefix("./"))

    def _run(self, command: Command, depth: int) -> None:
        """Judge what the first word names."""
        if depth > MAX_DEPTH:
            self._add(command.line, "runs something through too many others", "computed-command", "high")
            return
        head, *rest = command.words
        if head.text in ("[[", "]]"):
            return
        if head.text in _ARGUMENTS:
            if not self._script.functions:
                self._add(command.line, "runs whatever it is called with", "computed-command", "high")
            return
        resolved = self._head(head, command.line)
        if resolved is None:
            return
        name = resolved.rpartition("/")[2]
        if head.hidden:
            message = f"spells {name!r} so that it is hard to read"
            self._add(command.line, message, "obfuscated-command", "high")
        if resolved.removeprefix("./") in self._written or resolved.startswith(_TEMPORARY):
            self._add(command.line, f"runs {resolved!r}, which was not in the package", "runs-what-it-wrote", "high")
        self._note(command.line, program_findings(name, rest, self._known))
        self._follow(name, command, rest, depth)
        self._arguments(name, command.line, rest)
        if name in self._script.functions and self._runs_arguments and rest:
            self._run(replace(command, words=tuple(rest)), depth + 1)

    def _arguments(self, name: str, line: int, rest: list[Word]) -> None:
        """Arguments that look like commands: many programs have an option to run one."""
        if name in programs.QUOTING or name in programs.INSTALLERS:
            return
        known = programs.NETWORK | programs.FORBIDDEN | programs.SHELLS
        before = ""
        for word in rest:
            first, _, more = word.text.removeprefix("!").partition(" ")
            told = word.text.startswith("!") and bool(first) and name != "find"
            if before not in ("-m", "--message", "--grep") and (first.rpartition("/")[2] in known or told):
                severity: Severity = "high" if more or told else "elevated"
                message = f"hands {name} what looks like a command: {word.text[:60]!r}"
                self._add(line, message, "argument-command", severity)
            before = word.text

    def _head(self, head: Word, line: int) -> str | None:
        """The program's name, as far as it can be told."""
        resolved = self._resolved(head)
        if resolved.literal and resolved.text and "{}" not in resolved.text:
            return resolved.text
        whole = head.text.startswith("${") and head.text.endswith("}") and len(head.expansions) == 1
        if whole and head.expansions[0].default:
            self._add(line, f"runs {head.text}, which the environment may change", "computed-command", "elevated")
            return head.expansions[0].default
        self._add(line, f"runs what is only known later: {head.raw[:80]}", "computed-command", "high")
        return None

    def _resolved(self, word: Word) -> Word:
        """The word with its variables replaced, where the value of each is known."""
        plain = all(found.command is None and not found.inner for found in word.expansions)
        if word.pattern or not plain or any(found.name not in self._constants for found in word.expansions):
            return word
        text = _SIMPLE.sub(lambda found: self._constants.get(found[1] or found[2], found[0]), word.text)
        return word if "$" in text else replace(word, text=text, expansions=())

    def _follow(self, name: str, command: Command, rest: list[Word], depth: int) -> None:
        """Programs that run others, and words of the shell that run texts or files."""
        if name in programs.WRAPPERS:
            self._wrapped(name, command, rest, depth)
        elif name == "find":
            self._find(command.line, rest, depth)
        elif name == "busybox" and rest:
            self._run(replace(command, words=tuple(rest)), depth + 1)
        elif name in programs.SHELLS or re.sub(r"[\d.]+$", "", name) in programs.INTERPRETERS:
            self._interpreter(name, command, rest, depth)
        elif name in ("eval", ".", "source", "trap"):
            self._text_as_code(name, command, rest, depth)
        elif name in ("export", "declare", "typeset", "readonly", "local"):
            for word in rest:
                variable, sign, _ = word.raw.partition("=")
                if not sign and variable in programs.VARIABLES:
                    self._variable(variable, word, command.line)
                elif sign and re.fullmatch(r"\w+\+?", variable, re.ASCII):
                    self._variable(variable.rstrip("+"), word.after(len(variable) + 1), command.line)

    def _find(self, line: int, rest: list[Word], depth: int) -> None:
        texts = [word.text for word in rest]
        for place, text in enumerate(texts):
            if text in ("-exec", "-execdir", "-ok", "-okdir") and place + 1 < len(rest):
                end = next((at for at in range(place, len(texts)) if texts[at] in (";", "+")), len(texts))
                self._run(Command(line, tuple(rest[place + 1 : end])), depth + 1)

    def _wrapped(self, name: str, command: Command, rest: list[Word], depth: int) -> None:
        """Go on with what a program such as `env` or `xargs` runs."""
        waiting, skipped = list(rest), 0 if name in ("timeout", "flock") else 1
        while waiting:
            text = waiting[0].text
            if name == "env" and text.startswith(("-S", "--split-string")):
                self._add(command.line, "splits a text into a command", "computed-command", "high")
                return
            if name == "env" and re.match(r"\w+=", text):
                variable = text.partition("=")[0]
                self._variable(variable, waiting.pop(0).after(len(variable) + 1), command.line)
            elif text.startswith("-") and len(text) > 1:
                waiting.pop(0)
                if len(text) == 2 and text[1] in programs.WRAPPERS[name]:
                    del waiting[:1]
            elif not skipped:
                waiting.pop(0)  # how long, or which lock
                skipped = 1
            else:
                piped = command.piped and name not in ("xargs", "parallel")
                self._run(replace(command, words=tuple(waiting), piped=piped), depth + 1)
                return
        if name == "env":
            self._add(command.line, "prints the environment, where secrets may be", "environment", "elevated")

    def _interpreter(self, name: str, command: Command, rest: list[Word], depth: int) -> None:
        line, codes = command.line, code_words(name, command, rest)
        self._note(line, interpreter_findings(name, command, rest, codes))
        files = [word for word in rest if not word.text.startswith("-")]
        if files and not codes and self._resolved(files[0]).text.removeprefix("./") in self._written:
            self._add(line, f"runs {files[0].text!r}, which it wrote itself", "runs-what-it-wrote", "high")
        for code in codes if name in programs.SHELLS else ():
            self._nested(code, line, depth)

    def _nested(self, code: Word, line: int, depth: int) -> None:
        """A text that a shell will read as commands."""
        if any(found.command is not None for found in code.expansions) or code.text.startswith("$"):
            self._add(line, "runs a text that is only known later", "computed-command", "high")
            return
        if code.expansions:
            self._add(line, "puts a value into a text that is run", "computed-command", "elevated")
        for command in parse_shell(code.text, line).commands:
            self.review(replace(command, line=line), depth + 1)

    def _text_as_code(self, name: str, command: Command, rest: list[Word], depth: int) -> None:
        line = command.line
        if name == "eval":
            self._add(line, "runs a text as commands (eval)", "eval", "high")
        elif name == "trap" and rest and rest[0].text not in ("-", "", "-l", "-p"):
            self._nested(rest[0], line, depth)
        elif name in (".", "source") and rest:
            target = self._resolved(rest[0])
            if target.text.removeprefix("./") in self._written:
                self._add(line, f"runs {target.text!r}, which it wrote itself", "runs-what-it-wrote", "high")
            elif not target.literal or target.text.startswith(("/", "~")):
                self._add(line, f"runs the commands of {target.raw[:80]}", "source", "high")
