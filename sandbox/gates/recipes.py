"""The rules of recipes: packages whose scripts a coding agent runs in a repository, with that user's rights.

No broker stands between them and the machine, so every command is read, judged and listed. `SKILL.md` counts as a
script where it shows commands: agents run them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from instar.sandbox.gates.parsing import parse_python
from instar.sandbox.gates.recipe_code import review_recipe_code
from instar.sandbox.gates.shellrules import review_shell
from instar.sandbox.report import Finding
from instar.skills.manifest import Manifest
from instar.skills.package import SKILL_MD

MAX_SCRIPT_BYTES: Final = 64 * 1024
_FENCE: Final = re.compile(r"^ {0,3}(`{3,}|~{3,})\s*(\w*)[^\n]*$")
_FIRST_LINES: Final = {
    "sh": re.compile(rb"#!\s?(?:/usr)?/bin/(?:env )?(?:ba|da)?sh(?: -[eu]+)?"),
    "bash": re.compile(rb"#!\s?(?:/usr)?/bin/(?:env )?bash(?: -[eu]+)?"),
    "py": re.compile(rb"#!\s?/usr/bin/(?:env )?python3?"),
}
_SHELL_BLOCKS: Final = frozenset({"sh", "bash", "shell", "zsh", "console", "shell-session", "terminal"})


def is_script(path: str) -> bool:
    """Whether the file is a shell script of the package."""
    return path.endswith((".sh", ".bash"))


def says_its_interpreter(path: str, content: bytes) -> bool:
    """Whether the first line names the interpreter that the file's name stands for."""
    pattern = _FIRST_LINES.get(path.rpartition(".")[2])
    return pattern is not None and pattern.fullmatch(content.partition(b"\n")[0]) is not None


def review_recipe(path: str, content: bytes, manifest: Manifest) -> Iterator[Finding]:
    """Findings about what one file of a recipe would run.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: it cannot be read.
    """
    granted = frozenset(tool.name for tool in manifest.tools)
    if (is_script(path) or path.endswith(".py")) and len(content) > MAX_SCRIPT_BYTES:
        message = f"more code than a person can review: {len(content)} bytes"
        yield Finding(message=message, file=path, rule="too-long", severity="high")
    elif is_script(path):
        yield from review_shell(path, content.decode("utf-8"), granted=granted)
    elif path.endswith(".py"):
        yield from review_recipe_code(parse_python(content), path, granted=granted)
    elif path == SKILL_MD:
        for line, text in command_blocks(content.decode("utf-8")):
            yield from review_shell(path, text, granted=granted, line=line)


def review_recipe_package(files: Mapping[str, bytes], manifest: Manifest) -> Iterator[Finding]:
    """Findings about the package as a whole."""
    yield Finding(
        message="runs programs in a repository, with the rights of whoever uses it",
        file="scripts/manifest.json",
        rule="recipe",
        severity="elevated",
    )
    if not any(path.startswith("scripts/") and (is_script(path) or path.endswith(".py")) for path in files):
        yield Finding(message="a recipe without a script", file="scripts/", rule="recipe-empty", severity="high")
    for dependency in manifest.dependencies:
        message = f"{dependency.name}: a recipe runs outside the sandbox, where nothing pins what it imports"
        yield Finding(message=message, file="scripts/manifest.json", rule="dependency", severity="high")


def command_blocks(text: str) -> Iterator[tuple[int, str]]:
    """The blocks of shell commands in Markdown: the number of the first line, and the text without prompts."""
    lines = text.split("\n")
    fence, begun, block, shell = "", 0, list[str](), False
    for number, line in enumerate(lines, 1):
        match = _FENCE.match(line)
        if not fence and match:
            fence, begun, block = match[1], number + 1, []
            shell = match[2].lower() in _SHELL_BLOCKS
        elif fence and match and match[1].startswith(fence) and not match[2]:
            if shell:
                yield begun, "\n".join(block)
            fence = ""
        elif fence:
            block.append(re.sub(r"^\s*[$>] ", "", line))
    if fence and shell:
        yield begun, "\n".join(block)
