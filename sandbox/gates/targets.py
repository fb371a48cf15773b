"""Paths that a recipe changes or removes: what lies outside the repository, what is obeyed later, what is unknown."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final, Literal

from instar.sandbox.gates.programs import PERSISTENT
from instar.sandbox.gates.shellwords import Expansion, Word

Severity = Literal["elevated", "high"]
_HARMLESS: Final = re.compile(r"/dev/(?:null|stdout|stderr|fd/\d+|tty)")
_HOME: Final = re.compile(r"~|\$\{?(?:HOME|XDG_\w+)\b", re.ASCII)
_EVERYTHING: Final = frozenset({"/", "/*", "~", ".", "./", "..", "*", "./*", ".*", ".git", "./.git"})


def path_findings(target: Word, made: Collection[str]) -> Iterator[tuple[Severity, str]]:
    """What speaks against writing to `target`; `made` are the variables that hold a folder of `mktemp`."""
    text = target.text
    if _HARMLESS.fullmatch(text) or _is_made(target, made):
        return
    if PERSISTENT.search(text):
        yield "high", f"writes to {text[:80]!r}, which is run or obeyed later"
    elif _HOME.match(text):
        yield "high", f"writes to the home folder: {text[:80]!r}"
    elif text.startswith("/tmp/"):  # noqa: S108 — a path in the draft
        yield "elevated", f"writes to a name in /tmp that others can guess: {text[:80]!r}"
    elif text.startswith("/") or ".." in text.split("/"):
        yield "high", f"writes outside the repository: {text[:80]!r}"
    elif target.expansions:
        yield "elevated", f"writes to a path that is only known later: {target.raw[:80]}"


def removal_findings(
    words: Sequence[Word], paths: Sequence[Word], made: Collection[str]
) -> Iterator[tuple[Severity, str]]:
    """What speaks against removing `paths`; `words` are all words of the command, options included."""
    deep = not words or any(re.match(r"-[a-zA-Z]*[rR]|--recursive", word.text) for word in words)
    if deep and words and not paths:
        yield "elevated", "removes, with everything below it, what another program names"
    for target in paths:
        text = target.text
        outside = _HOME.match(text) or (text.startswith("/") and not text.startswith("/tmp/"))  # noqa: S108
        if text in _EVERYTHING or outside:
            yield "high" if deep or text != "*" else "elevated", f"removes {text[:80]!r}"
        elif ".." in text.split("/"):
            yield "high", f"removes what is outside the repository: {text[:80]!r}"
        elif deep and any(not _safe(found, made) for found in target.expansions):
            yield "high", f"removes with everything below it what is only known later: {target.raw[:80]}"
        elif deep:
            yield "elevated", f"removes with everything below it: {text[:80]!r}"


def _is_made(target: Word, made: Collection[str]) -> bool:
    return bool(target.expansions) and all(found.name in made for found in target.expansions)


def _safe(found: Expansion, made: Collection[str]) -> bool:
    """Whether an expansion cannot turn out empty, or name something that the script did not make."""
    return found.command is None and (found.guarded or found.name in made)
