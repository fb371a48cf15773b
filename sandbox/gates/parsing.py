"""Parsing hostile source, one thread at a time."""

from __future__ import annotations

import ast
import threading

PARSING = threading.RLock()
"""Held while anything here parses Python: before 3.12, two threads that parse at once can make the parser lose count
of its own depth, and one of them gets a SystemError."""


def parse_python(content: bytes) -> ast.Module:
    """The syntax tree of hostile source.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: it cannot be parsed.
    """
    source = content.decode("utf-8")
    with PARSING:
        return ast.parse(source)
