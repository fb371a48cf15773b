"""Edit JSON as text, so that everything else stays as it is: order, spacing, and comments where a format has them.

Reads JSON and what hosts make of it: comments, trailing commas, single quotes and names without quotes (JSON5).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

_SPACE = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'', re.DOTALL)
_NAME = re.compile(r"[A-Za-z_$][\w$]*")
_SCALAR = re.compile(r"[-+.\w]+")
_DEPTH = 200


class NotJson(ValueError):
    """The text is not JSON, nor anything near it; `at` is where."""

    def __init__(self, at: int, expected: str) -> None:
        self.at, self.expected = at, expected
        super().__init__(f"expected {expected} at character {at}")


@dataclass(slots=True)
class Node:
    """A value and where it stands. Objects have names, one for each item; other values have none."""

    start: int
    end: int
    kind: str
    """object, array, string or scalar."""
    value: str = ""
    names: list[str] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    """Where each item begins, its name included."""
    items: list[Node] = field(default_factory=list)

    def member(self, name: str) -> Node | None:
        """The value of a name."""
        return self.items[self.names.index(name)] if name in self.names else None


def parse(text: str) -> Node:
    """The value that a text holds.

    Raises:
        NotJson: it holds none, or more than one.
    """
    at = _skip(text, 1 if text.startswith("\ufeff") else 0)
    node = _value(text, at, 0)
    end = _skip(text, node.end)
    if end != len(text):
        raise NotJson(end, "the end")
    return node


def find(root: Node, path: Sequence[str]) -> Node | None:
    """The value at a path of names."""
    node: Node | None = root
    for name in path:
        node = node.member(name) if node is not None and node.kind == "object" else None
    return node


def put_member(text: str, path: Sequence[str], name: str, value: JsonValue) -> str:
    """The text with one more member in the object at a path; objects that are missing are made.

    Raises:
        NotJson: the text cannot be read, or something on the path is no object.
    """
    root = parse(text)
    for depth, step in enumerate(path):
        inner = find(root, path[: depth + 1])
        if inner is None:
            nested = value
            for outer in reversed([*path[depth + 1 :], name]):
                nested = {outer: nested}
            return _insert(text, find(root, path[:depth]), nested, depth, name=step)
    return _insert(text, find(root, path), value, len(path), name=name)


def put_item(text: str, path: Sequence[str], value: JsonValue) -> str:
    """The text with one more item in the array at a path, which is made where it is missing.

    Raises:
        NotJson: the text cannot be read, or what is there is no array.
    """
    node = find(parse(text), path)
    if node is None:
        return put_member(text, path[:-1], path[-1], [value])
    if node.kind != "array":
        raise NotJson(node.start, "an array")
    return _insert(text, node, value, len(path), name=None)


def take(text: str, node: Node, number: int) -> str:
    """The text without the item of that number and its comma. Comments around it stay."""
    begin, end, last = node.begins[number], node.items[number].end, len(node.items) - 1
    if number < last:
        following = node.begins[number + 1]
        if text[end:following].strip() == ",":
            return text[:begin] + text[following:]
        comma = _skip(text, end)
        return text[:begin] + text[end:comma] + text[comma + 1 :]
    if number:
        before = node.items[number - 1].end
        comma = _skip(text, before)
        kept = text[before:comma] + text[comma + 1 : begin].rstrip()
        return text[:before] + kept + text[end:]
    after = _skip(text, end)
    rest = text[end:after] + text[after + 1 :] if text[after : after + 1] == "," else text[end:]
    inside = text[node.start + 1 : begin]
    closing = rest.index("}" if node.kind == "object" else "]") if rest.strip()[:1] != "/" else -1
    if not inside.strip() and closing >= 0 and not rest[:closing].strip():
        return text[: node.start + 1] + rest[closing:]
    return text[:begin] + rest


def _insert(text: str, node: Node | None, value: JsonValue, depth: int, *, name: str | None) -> str:
    if node is None or (name is not None and node.kind != "object"):
        raise NotJson(node.start if node else 0, "an object")
    unit = _unit(text)
    inner, outer = unit * (depth + 1), unit * depth
    shown = json.dumps(value, indent=unit or 2, ensure_ascii=False).replace("\n", "\n" + inner)
    entry = f"{json.dumps(name)}: {shown}" if name is not None else shown
    if not node.items:
        inside = text[node.start + 1 : node.end - 1]
        tail = f"\n{outer}" if "\n" not in inside else inside
        return f"{text[: node.start + 1]}\n{inner}{entry}{tail}{text[node.end - 1 :]}"
    last = node.items[-1].end
    comma = _skip(text, last)
    if text[comma : comma + 1] == ",":  # a trailing one, which the format allows
        return f"{text[: comma + 1]}\n{inner}{entry},{text[comma + 1 :]}"
    # A comment on the line of the last item belongs to it.
    remark = re.compile(r"[ \t]*//[^\n]*").match(text, last)
    behind = remark.end() if remark else last
    return f"{text[:last]},{text[last:behind]}\n{inner}{entry}{text[behind:]}"


def _unit(text: str) -> str:
    """The indentation of the text: that of its first indented line."""
    found = re.search(r"\n([ \t]+)\S", text)
    return found.group(1) if found else "  "


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _value(text: str, at: int, depth: int) -> Node:
    if depth > _DEPTH:
        raise NotJson(at, "less depth")
    if at < len(text) and text[at] in "{[":
        return _container(text, at, depth)
    if found := _STRING.match(text, at):
        return Node(at, found.end(), "string", _unquoted(found.group(), at))
    if found := _SCALAR.match(text, at):
        return Node(at, found.end(), "scalar", found.group())
    raise NotJson(at, "a value")


def _container(text: str, at: int, depth: int) -> Node:
    closing, kind = ("}", "object") if text[at] == "{" else ("]", "array")
    node = Node(at, at, kind)
    here = _skip(text, at + 1)
    while here < len(text) and text[here] != closing:
        begin = here
        if kind == "object":
            name, here = _name(text, here)
            here = _skip(text, here)
            if text[here : here + 1] != ":":
                raise NotJson(here, "a colon")
            node.names.append(name)
            here = _skip(text, here + 1)
        item = _value(text, here, depth + 1)
        node.begins.append(begin)
        node.items.append(item)
        here = _skip(text, item.end)
        if text[here : here + 1] == ",":
            here = _skip(text, here + 1)
        elif text[here : here + 1] != closing:
            raise NotJson(here, f"a comma or {closing}")
    if here >= len(text):
        raise NotJson(here, closing)
    node.end = here + 1
    return node


def _name(text: str, at: int) -> tuple[str, int]:
    if found := _STRING.match(text, at):
        return _unquoted(found.group(), at), found.end()
    if found := _NAME.match(text, at):
        return found.group(), found.end()
    raise NotJson(at, "a name")


def _unquoted(quoted: str, at: int) -> str:
    if quoted[0] == "'":
        quoted = '"' + quoted[1:-1].replace('"', '\\"').replace("\\'", "'") + '"'
    try:
        return str(json.loads(quoted, strict=False))
    except ValueError:
        raise NotJson(at, "a string") from None
