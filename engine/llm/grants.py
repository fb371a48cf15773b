"""What programs of a model may be given beside the tools of their sessions: allowed wheels, built-in tools."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from instar.sandbox.reach import PAGES, READS, WRITES
from instar.sandbox.shelf import Shelf
from instar.skills.manifest import Dependency

HOW: Mapping[str, str] = {
    PAGES: 'tools.call("http.get", {"url": url}) gives {"status": 200, "type": "text/html", "text": "…"}; with '
    '"encoding": "base64" beside the url, "text" is the bytes in base64. A page that cannot be had raises.',
    READS: 'tools.call("files.read", {"path": path}) gives the text of a file; with "encoding": "base64" beside the '
    "path, its bytes in base64. Paths are absolute.",
    WRITES: 'tools.call("files.write", {"path": path, "text": text}) writes a text file and gives {"bytes": n}.',
}
"""What a program must know to call a built-in tool."""


@dataclass(frozen=True, slots=True)
class Grants:
    """`shelf` holds the wheels that the user allowed; `same_as` names recorded tools that are a built-in."""

    shelf: Shelf = field(default_factory=Shelf)
    same_as: Mapping[str, str] = field(default_factory=dict)

    def wheels_in_words(self) -> str:
        """The wheels that may be asked for, one line each."""
        lines = (f"{name} {wheel.pin.version}: {wheel.summary}" for name, wheel in sorted(self.shelf.wheels.items()))
        return "\n".join(lines) or "none"


def how_to_call(tools: Sequence[str], wheels: Sequence[Dependency]) -> str:
    """What a programmer must know of the built-in tools and wheels that a requirement grants."""
    lines = [HOW[tool] for tool in tools if tool in HOW]
    lines += [f"import {', '.join(wheel.modules)}  # {wheel.name} {wheel.version}" for wheel in wheels]
    return "\n".join(lines)


def used(wheels: Sequence[Dependency], module: str) -> list[Dependency]:
    """The wheels that a module imports, and with any of them all: which of them needs which was settled before."""
    imported = set(_imported(ast.parse(module)))
    return list(wheels) if any(imported & set(wheel.modules) for wheel in wheels) else []


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]
