"""What shellcheck says about the shell scripts of a recipe: mistakes and risks, not matters of taste."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from instar.sandbox.gates.commands import run_checker, unpacked
from instar.sandbox.gates.errors import ToolBroke
from instar.sandbox.report import Finding

PROGRAM: Final = "shellcheck"
SECONDS: Final = 10.0
SILENCER: Final = re.compile(r"#\s*shellcheck\b", re.IGNORECASE)
_REMEDY: Final = "install it with the extra `shell` (pip install 'instar[shell]'), or from your system's packages"
_UNQUOTED: Final = frozenset({2046, 2048, 2068, 2086})
_ENDANGERS: Final = frozenset({2114, 2115})
"""Removals that an empty variable, or none, turns into one of the whole system."""
_MISREAD: Final = range(1000, 2000)
"""Numbers of messages about text that could not be read as a script."""


def review_with_shellcheck(files: Mapping[str, bytes], paths: Sequence[str]) -> Iterator[Finding]:
    """What shellcheck says of the given scripts. No comment, and no file beside them, configures it.

    Raises:
        ToolBroke: it is missing, hung or answered nonsense.
        SyntaxError: it could not read a script.
    """
    for path in paths:
        for number, line in enumerate(files[path].decode("utf-8").split("\n"), 1):
            if SILENCER.search(line):
                message = f"a comment that silences a checker: {line.strip()[:80]}"
                yield Finding(message=message, file=path, line=number, rule="silencer", severity="high")
    if not paths:
        return
    with unpacked(files, paths) as folder:
        command = [_program(), "--norc", "--format=json1", "--severity=info", "--shell=bash", "--", *paths]
        done = run_checker(PROGRAM, command, folder, seconds=SECONDS)
    try:
        comments = json.loads(done.output)["comments"]
        found = [(str(item["file"]), int(item["line"]), str(item["level"]), int(item["code"]), str(item["message"]))
                 for item in comments]  # fmt: skip
    except (ValueError, KeyError, TypeError) as error:
        raise ToolBroke(PROGRAM, f"unreadable output: {error}: {done.errors.strip()[:500]}") from error
    for path, at, level, code, message in found:
        if code in _MISREAD and level == "error":
            raise SyntaxError(f"{path}:{at}: SC{code} {message}")
        yield Finding(
            message=f"SC{code} {message}"[:300],
            file=path,
            line=max(0, at),
            rule="unquoted" if code in _UNQUOTED else "removal" if code in _ENDANGERS else f"shellcheck-{code}",
            severity="high" if code in _ENDANGERS else "elevated" if code in _UNQUOTED or level == "error" else "low",
        )


def shellcheck_version() -> str:
    """The version of the program that judges here; nothing where there is none.

    Raises:
        ToolBroke: it does not answer.
    """
    try:
        program = _program()
    except ToolBroke:
        return ""
    done = run_checker(PROGRAM, [program, "--version"], Path.cwd(), seconds=SECONDS)
    found = re.search(r"version: (\S+)", done.output)
    return found[1] if found else ""


def _program() -> str:
    """The one beside this interpreter, where the wheel puts it, or the system's."""
    found = shutil.which(PROGRAM, path=str(Path(sys.executable).parent)) or shutil.which(PROGRAM)
    if found is None:
        raise ToolBroke(PROGRAM, f"its program is missing: {_REMEDY}")
    return found
