"""What an agent changed between a call that failed and the one that got past it.

A change is a fact about two calls, precise enough to be advised, and to be compared with what was done the next time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from pydantic import JsonValue

MAX_AFFIX = 16
MIN_TEXT = 3


class ChangeKind(StrEnum):
    """The kinds of change, the most telling first: the order decides which one is advised."""

    PREFIXED = "prefixed"
    SUFFIXED = "suffixed"
    STRIPPED = "stripped"
    EXTENDED = "extended"
    """The new value holds the old one and much around it."""
    RESPELLED = "respelled"
    RETYPED = "retyped"
    RENAMED = "renamed"
    INSTALLED = "installed"
    SUMMED = "summed"
    """The new amounts add up to a number that the error message names."""
    NAMED = "named"
    """The new value is one that the error message names."""
    TAKEN = "taken"
    """The new value stands in an earlier result."""
    AFTER = "after"
    """Another tool was called first, on the same thing."""
    SIBLING = "sibling"
    """A tool of the same family did it instead."""
    REPLACED = "replaced"
    """Another program did it instead, on the same operand."""
    SPLIT = "split"
    """A word of the command line was added or removed."""
    ADDED = "added"
    REMOVED = "removed"
    EDITED = "edited"
    """The file that the error names was changed, then the same command ran again."""
    ASKED = "asked"
    """The new values are other ones that the user gave."""
    REPEATED = "repeated"
    """The same call again, unchanged."""


_RANK = {kind: rank for rank, kind in enumerate(ChangeKind)}


@dataclass(frozen=True, slots=True)
class Change:
    """One difference: of `argument`, with a `detail` whose meaning depends on the kind.

    `given` is the shape of the value that was changed, for changes that depend on it.
    """

    kind: ChangeKind
    argument: str = ""
    detail: str = ""
    given: str = ""

    @property
    def rank(self) -> tuple[int, str, str, str]:
        """Sorts the more telling first."""
        return _RANK[self.kind], self.argument, self.detail, self.given

    def applies(self, arguments: Mapping[str, JsonValue]) -> bool:
        """Whether the change is possible for a call: a prefix that is there already cannot be added."""
        values = flat(arguments).get(self.argument, ())
        if self.given:
            return any(isinstance(value, str) and shape(value) == self.given for value in values)
        if self.kind is ChangeKind.RESPELLED:
            return any(isinstance(value, str) and _respell(value, self.detail) != value for value in values)
        if self.kind is ChangeKind.RETYPED:
            return any(type_name(value) != self.detail for value in values)
        if self.kind in {ChangeKind.REMOVED, ChangeKind.RENAMED}:
            return bool(values)
        return self.kind is not ChangeKind.ADDED or not values

    def advice(self) -> str:
        """The change as an instruction, without a full stop."""
        where, what = f"`{self.argument}`", f"`{self.detail}`"
        like = f" when it is {_outline(self.given)}" if self.given else ""
        return {
            ChangeKind.PREFIXED: f"put {what} in front of {where}{like}",
            ChangeKind.SUFFIXED: f"put {what} after {where}{like}",
            ChangeKind.STRIPPED: f"leave {what} off {where}{like}",
            ChangeKind.EXTENDED: f"keep {where} and add what stands around it",
            ChangeKind.RESPELLED: f"spell {where} with {_SPELLING.get(self.detail, what)}",
            ChangeKind.RETYPED: f"pass {where} as a JSON {self.detail}",
            ChangeKind.RENAMED: f"pass {what} instead of {where}",
            ChangeKind.INSTALLED: f"install {what}, then run it again"
            if self.detail
            else "install what is missing (the package that the error names, or the project), then run it again",
            ChangeKind.SUMMED: f"make {where} add up to the total that the error names",
            ChangeKind.NAMED: f"take {where} from the error message, which names what is valid",
            ChangeKind.TAKEN: f"take {where} from {_place(self.detail)}",
            ChangeKind.AFTER: f"call {what} on the same thing first",
            ChangeKind.SIBLING: f"use {what} instead",
            ChangeKind.REPLACED: f"use {what} instead",
            ChangeKind.SPLIT: f"run it {'with' if self.argument == '+' else 'without'} {what}",
            ChangeKind.ADDED: f"pass {where} as well",
            ChangeKind.REMOVED: f"leave {where} out",
            ChangeKind.EDITED: "change the file that the error names, then run the same command again",
            ChangeKind.ASKED: "use other details that the user gave, or ask for some",
            ChangeKind.REPEATED: "run the same call once more",
        }[self.kind]


_SPELLING = {
    "lower": "lower-case letters",
    "upper": "upper-case letters",
    "_": "`_` between the words",
    "-": "`-` between the words",
    " ": "spaces between the words",
    "": "no sign between the words",
}


_REPLACEMENTS = frozenset({"new_string", "new_str", "new_text", "content", "file_text"})
"""Arguments that hold what shall be written: that they grew says nothing about the failure."""
_OVERRIDES = re.compile(
    r"(?i)(^|[_\-])(force|forced|override|overwrite|break|skip|ignore|bypass|unsafe|insecure|disable|confirm|confirmed|"
    r"no[_\-](verify|check|confirm|sandbox)|yes|allow)([_\-=]|$)"
)


def overrides(change: Change) -> bool:
    """Whether a change only tells a tool to go on in spite of its objection: that is never advised."""
    if change.kind is ChangeKind.SPLIT and change.argument == "+":
        return bool(_OVERRIDES.search(change.detail))
    return change.kind is ChangeKind.ADDED and bool(_OVERRIDES.search(change.argument))


def shape(value: str) -> str:
    """The outline of a value: runs of letters become `A`, runs of digits `9`; at most 24 characters."""
    return re.sub(r"[0-9]+", "9", re.sub(r"[^\W\d_]+", "A", value[:200]))[:24]


def flat(value: JsonValue | Mapping[str, JsonValue]) -> dict[str, tuple[JsonValue, ...]]:
    """Every scalar by its path; the items of a list share one path that ends in `[]`."""
    found: dict[str, list[JsonValue]] = {}
    for path, leaf in _leaves(value, "", 0):
        found.setdefault(path, []).append(leaf)
    return {path: tuple(leaves) for path, leaves in found.items()}


def differences(failed: Mapping[str, JsonValue], succeeded: Mapping[str, JsonValue]) -> Iterator[Change]:
    """What differs in form between two argument sets; values that are merely other values are `changed_values`."""
    before, after = flat(failed), flat(succeeded)
    gone = [path for path in before if path not in after]
    new = [path for path in after if path not in before]
    for path in list(gone):
        renamed = next((other for other in new if after[other] == before[path]), None)
        if renamed is not None:
            gone.remove(path)
            new.remove(renamed)
            yield Change(ChangeKind.RENAMED, path, renamed)
    yield from (Change(ChangeKind.REMOVED, path) for path in gone)
    yield from (Change(ChangeKind.ADDED, path) for path in new)
    seen: set[Change] = set()
    for path, old, value in changed_values(failed, succeeded):
        change = _change_of_form(path, old, value)
        if change is not None and change not in seen:
            seen.add(change)
            yield change


def changed_values(
    failed: Mapping[str, JsonValue], succeeded: Mapping[str, JsonValue]
) -> Iterator[tuple[str, JsonValue, JsonValue]]:
    """Path, old and new value of every scalar that differs; lists of unlike length are compared as sets."""
    before, after = flat(failed), flat(succeeded)
    for path in before:
        old, new = before[path], after.get(path, ())
        if len(old) == len(new):
            yield from ((path, a, b) for a, b in zip(old, new, strict=True) if not same(a, b))
        elif old and new:
            yield from ((path, old[0], b) for b in new if not any(same(a, b) for a in old))


def same(left: JsonValue, right: JsonValue) -> bool:
    """Equality that keeps JSON types apart: 1 is not true."""
    return type(left) is type(right) and left == right


def type_name(value: JsonValue) -> str:
    """The JSON type of a scalar."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "null" if value is None else "string" if isinstance(value, str) else "array"


def _leaves(value: JsonValue | Mapping[str, JsonValue], path: str, depth: int) -> Iterator[tuple[str, JsonValue]]:
    if isinstance(value, Mapping) and depth < 8:
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else key, depth + 1)
    elif isinstance(value, list) and depth < 8:
        if not value:
            yield f"{path}[]", None
        for item in value:
            yield from _leaves(item, f"{path}[]", depth + 1)
    elif not isinstance(value, Mapping | list):
        yield path, value


def _change_of_form(path: str, old: JsonValue, new: JsonValue) -> Change | None:
    if type_name(old) != type_name(new):
        alike = str(old).casefold() == str(new).casefold()
        return Change(ChangeKind.RETYPED, path, type_name(new)) if alike else None
    if not isinstance(old, str) or not isinstance(new, str) or min(len(old), len(new)) < MIN_TEXT:
        return None
    if len(new) > len(old) + MAX_AFFIX and old in new and path not in _REPLACEMENTS:
        return Change(ChangeKind.EXTENDED, path)
    kind, affix = _affix(old, new)
    if kind is not None:
        return Change(kind, path, affix, shape(old))
    spelling = next((style for style in ("lower", "upper", "_", "-", " ", "") if _respell(old, style) == new), None)
    return Change(ChangeKind.RESPELLED, path, spelling) if spelling is not None else None


def _affix(old: str, new: str) -> tuple[ChangeKind | None, str]:
    longer, shorter = (new, old) if len(new) > len(old) else (old, new)
    if not 0 < len(longer) - len(shorter) <= MAX_AFFIX:
        return None, ""
    if longer.endswith(shorter):
        affix = longer[: -len(shorter)]
        return (ChangeKind.PREFIXED if longer is new else ChangeKind.STRIPPED), affix
    if longer.startswith(shorter):
        affix = longer[len(shorter) :]
        return (ChangeKind.SUFFIXED if longer is new else ChangeKind.STRIPPED), affix
    return None, ""


def _outline(given: str) -> str:
    names = {"A": "letters", "9": "digits"}
    return " then ".join(names.get(part, f"`{part}`") for part in re.findall(r"A|9|[^A9]+", given))


def _place(detail: str) -> str:
    tool, _, path = detail.partition(" ")
    return f"`{path}` in the result of `{tool}`" if path else f"the result of `{tool}`"


def _respell(value: str, style: str) -> str:
    if style == "lower":
        return value.lower()
    if style == "upper":
        return value.upper()
    return re.sub(r"[\s_\-]+", style, value.strip())
