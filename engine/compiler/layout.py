"""Python text laid out as the formatter would: pieces of code that fit on a line, or exploded one item per line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pydantic import JsonValue

WIDTH = 118
INDENT = "    "


def text_literal(text: str) -> str:
    """Return a string literal in ASCII, quoted as the formatter prefers."""
    body = ascii(text)
    inner = body[1:-1]
    if body[0] == "'" and '"' not in inner:
        return f'"{inner.replace(chr(92) + chr(39), chr(39))}"'
    if body[0] == "'":
        unescaped = inner.replace("\\'", "'")
        if unescaped.count('"') <= unescaped.count("'"):
            return '"' + unescaped.replace('"', '\\"') + '"'
    return body


def literal(value: JsonValue) -> str:
    """Return a JSON value as a Python expression on one line."""
    if isinstance(value, str):
        return text_literal(value)
    if isinstance(value, list):
        return "[" + ", ".join(literal(item) for item in value) + "]"
    if isinstance(value, dict):
        return mapping((key, literal(item)) for key, item in value.items())
    return repr(value)


def mapping(items: Iterable[tuple[str, str]]) -> str:
    """Return a dictionary display on one line; values are code."""
    return "{" + ", ".join(f"{text_literal(key)}: {code}" for key, code in items) + "}"


def assign_mapping(indent: str, target: str, items: Mapping[str, str]) -> list[str]:
    """Lay out `target{...}`, where target ends with what stands before the brace ("x = ", "return ")."""
    line = f"{indent}{target}{mapping(items.items())}"
    if len(line) <= WIDTH or not items:
        return [line]
    inner = [f"{indent}{INDENT}{text_literal(key)}: {code}," for key, code in items.items()]
    return [f"{indent}{target}{{", *inner, f"{indent}}}"]


def call(indent: str, target: str, arguments: Sequence[str], end: str = "") -> list[str]:
    """Lay out `target(arguments)end`: on one line, or the arguments on a line of their own, or one per line."""
    joined = ", ".join(arguments)
    line = f"{indent}{target}({joined}){end}"
    if len(line) <= WIDTH or not arguments:
        return [line]
    if len(indent) + len(INDENT) + len(joined) <= WIDTH:
        return [f"{indent}{target}(", f"{indent}{INDENT}{joined}", f"{indent}){end}"]
    return [f"{indent}{target}(", *(f"{indent}{INDENT}{argument}," for argument in arguments), f"{indent}){end}"]


def prose(text: str, limit: int = 100) -> str:
    """Return text from a stranger as one safe line for a docstring: plain ASCII without quotes or backslashes."""
    plain = " ".join(text.split())
    kept = "".join(c for c in plain if c.isascii() and c.isprintable() and c not in "\"'\\`<>{}")
    return kept[:limit].strip()
