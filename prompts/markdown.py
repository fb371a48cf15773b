"""Values set into Markdown so that they stay what they are: text, never structure.

Everything that a template prints goes through `finalize`: a plain value is escaped, and only what a filter of this
module has already made safe passes as it is.
"""

from __future__ import annotations

import json
import re
import unicodedata
from urllib.parse import quote

INLINE_LIMIT = 600
"""Characters of a value shown inline; more is cut with an ellipsis."""

_STRUCTURE = re.compile(r"([\\`*_{}\[\]<>#|~!$])")
_AUTOLINK = re.compile(r"(?i)(://|www\.|@)")
_ENTITY = re.compile(r"&(?=#?\w{1,32};)")
_BACKTICKS = re.compile(r"`+")


class Markdown(str):
    """Text that is Markdown already; made by the filters below only."""

    __slots__ = ()


def finalize(value: object) -> str:
    """What a template prints for a value: Markdown as it is, everything else escaped."""
    return value if isinstance(value, Markdown) else text(value)


def text(value: object) -> Markdown:
    """A value as running text on one line: no structure, no markup, no link, nothing invisible."""
    shown = _STRUCTURE.sub(r"\\\1", _line(value))
    shown = _AUTOLINK.sub(lambda match: f"\\{match[0]}" if match[0] != "www." else "www\\.", shown)
    return Markdown(_ENTITY.sub("&amp;", shown))


def code(value: object) -> Markdown:
    """A value as inline code, fenced by more backticks than it holds; fit for a table cell."""
    shown = _line(value) if isinstance(value, str) else _line(json.dumps(value, ensure_ascii=False, sort_keys=True))
    if not shown:
        return Markdown("–")
    fence = "`" * (max(map(len, _BACKTICKS.findall(shown)), default=0) + 1)
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    # Table rows are split at bars before code is looked for, so a bar is shown by another sign that looks the same.
    return Markdown(f"{fence}{pad}{shown.replace('|', 'ǀ')}{pad}{fence}")


def block(value: object) -> Markdown:
    """A JSON value as a fenced block that no value inside can close."""
    shown = json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True)
    shown = "".join(char if char == "\n" or _visible(char) else "�" for char in shown)
    fence = "`" * max(3, max(map(len, _BACKTICKS.findall(shown)), default=0) + 1)
    return Markdown(f"{fence}json\n{shown}\n{fence}")


def url(value: str) -> Markdown:
    """An address of our own as the target of a link: nothing in it can end the link."""
    return Markdown(quote(value, safe=":/?=&.-_~"))


def listing(value: str, language: str = "") -> Markdown:
    """A text of several lines, code or a diff, as a fenced block that no line inside can close."""
    shown = "".join(char if char in "\n\t" or _visible(char) else "�" for char in value.rstrip("\n"))
    fence = "`" * max(3, max(map(len, _BACKTICKS.findall(shown)), default=0) + 1)
    return Markdown(f"{fence}{language}\n{shown}\n{fence}")


def percent(value: float) -> Markdown:
    """A share as a whole percentage."""
    return Markdown(f"{100 * value:.0f} %")


def plural(count: int, one: str, many: str = "") -> Markdown:
    """The count with its noun: `1 session`, `2 sessions`."""
    return Markdown(f"{count:,} {one if count == 1 else many or one + 's'}")


def _line(value: object) -> str:
    shown = " ".join("".join(char if char.isspace() or _visible(char) else "�" for char in str(value)).split())
    return shown if len(shown) <= INLINE_LIMIT else f"{shown[: INLINE_LIMIT - 1]}…"


def _visible(char: str) -> bool:
    return unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
