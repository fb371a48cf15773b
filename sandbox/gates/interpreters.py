"""Interpreters that a recipe starts: where their code comes from, and what it looks like."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from instar.sandbox.gates import programs
from instar.sandbox.gates.programrules import Seen, install_findings
from instar.sandbox.gates.shell import Command
from instar.sandbox.gates.shellwords import Word


def code_words(name: str, command: Command, rest: Sequence[Word]) -> list[Word]:
    """The texts that an interpreter would run: those behind its options, or those that it is fed."""
    letter = "c" if name in programs.SHELLS or name.startswith("python") else "[eEpr]"
    code = re.compile(rf"-\w*{letter}", re.ASCII)
    found = [word for option, word in pairwise(rest) if option.text in programs.INLINE or code.fullmatch(option.text)]
    if found or not _is_fed(rest):
        return found
    return [redirect.target for redirect in command.redirects if redirect.operator in ("<<text", "<<<")]


def interpreter_findings(name: str, command: Command, rest: Sequence[Word], codes: Sequence[Word]) -> Iterator[Seen]:
    """Findings about the start of one interpreter; `codes` is what `code_words` gave."""
    shell = name in programs.SHELLS
    files = [word for word in rest if not word.text.startswith("-")]
    fed = any(redirect.target in codes for redirect in command.redirects)
    if _is_fed(rest) and (not codes or fed):
        if command.piped:
            yield Seen(f"pipes what another program says into {name}", "pipe-to-shell", "high")
        elif any(redirect.operator == "<" for redirect in command.redirects):
            yield Seen(f"feeds a file to {name}", "inline-code", "high" if shell else "elevated")
    elif not codes and files and any(found.command is not None for found in files[0].expansions):
        yield Seen(f"runs what is only known later: {files[0].raw[:80]}", "computed-command", "high")
    for code in () if shell else codes:
        danger = programs.INLINE_DANGER.search(code.text) is not None
        more = " that does more than compute" if danger else ""
        yield Seen(f"code on a command line of {name}{more}", "inline-code", "high" if danger else "elevated")
    for word in () if shell else rest:
        written = word.text.startswith("-") or re.search(r"[\s(;]", word.text)
        if word not in codes and written and programs.INLINE_DANGER.search(word.text):
            yield Seen(f"an option of {name} that does more than compute", "inline-code", "high")
    for option, module in pairwise(rest):
        if option.text == "-m" and module.text in programs.MODULES:
            yield Seen(f"the module {module.text}, which connects or runs what it is told", "inline-code", "high")
        elif option.text == "-m" and module.text == "pip":
            yield from install_findings("pip", [word.text for word in rest])


def _is_fed(rest: Sequence[Word]) -> bool:
    """Whether the interpreter reads its code from its input."""
    files = [word for word in rest if not word.text.startswith("-")]
    return not files or any(word.text in ("-", "-s", "/dev/stdin") for word in rest)
