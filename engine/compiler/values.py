"""JSON values: what may carry dataflow, and the paths that lead to it.

A path is a tuple of steps. A string goes into a mapping, an integer into a list; three steps loop: `LIST` over the
items of a list, `KEYS` and `VALUES` over a mapping. A mapping key that looks like a loop step is never followed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import Final

from pydantic import JsonValue

LIST: Final = "*"
KEYS: Final = "*keys"
VALUES: Final = "*values"
LOOPS: Final = frozenset({LIST, KEYS, VALUES})

Scalar = str | int | float
Path = tuple[str | int, ...]

MAX_TEXT = 200
"""A longer string is prose; two calls that share it share a quotation, not an identifier."""
MAX_LEAVES = 20_000
"""How much of one result is looked at."""
MAX_DEPTH = 12
MAX_VARIANTS = 8
"""Generalised paths kept for one leaf."""


def bindable(value: JsonValue) -> bool:
    """Whether equality of such values says anything: no booleans, null, single characters or numbers below 100."""
    if isinstance(value, str):
        text = value.strip()
        return len(text) > 1 and len(value) <= MAX_TEXT and not (len(text) < 3 and text.isdigit())
    if isinstance(value, bool) or value is None:
        return False
    if isinstance(value, int):
        return abs(value) >= 100
    return isinstance(value, float) and (abs(value) >= 100 or value != int(value))


def same(left: JsonValue, right: JsonValue) -> bool:
    """JSON equality that keeps types apart: 1 is neither true nor 1.0."""
    return type(left) is type(right) and canonical(left) == canonical(right)


def canonical(value: JsonValue) -> str:
    """One text per JSON value, whatever the order of its keys."""
    if isinstance(value, str):
        return "s" + value
    return json.dumps(value, sort_keys=True, ensure_ascii=True)


def scalar_key(value: Scalar) -> tuple[str, Scalar]:
    """A dictionary key under which 1, 1.0 and "1" stay different."""
    return type(value).__name__, value


def leaves(value: JsonValue, wanted: Collection[tuple[str, Scalar]]) -> Iterator[tuple[tuple[str, Scalar], Path]]:
    """Yield every wanted scalar in `value`, mapping keys included, with its concrete path, in document order.

    A mapping key is reported with the step `KEYS` behind the path of the mapping.
    """
    budget = MAX_LEAVES
    stack: list[tuple[JsonValue, Path]] = [(value, ())]
    while stack and budget > 0:
        node, path = stack.pop()
        budget -= 1
        if isinstance(node, dict):
            if len(path) >= MAX_DEPTH:
                continue
            for key in node:
                if ("str", key) in wanted:
                    yield ("str", key), (*path, KEYS)
            stack.extend((node[key], (*path, key)) for key in reversed(node) if key not in LOOPS)
        elif isinstance(node, list):
            if len(path) < MAX_DEPTH:
                stack.extend((node[i], (*path, i)) for i in range(len(node) - 1, -1, -1))
        elif node is not None and not isinstance(node, bool):
            found = scalar_key(node)
            if found in wanted:
                yield found, path


@lru_cache(maxsize=20_000)
def generalised(path: Path) -> tuple[Path, ...]:
    """Return the paths of which `path` is an instance: list positions loop, at most one mapping step loops.

    The first position of a list is also kept as it is (an agent often takes the first hit).
    """
    variants: list[Path] = [()]
    for step in path:
        if isinstance(step, int):
            grown = [(*variant, LIST) for variant in variants]
            if step == 0:
                grown += [(*variant, 0) for variant in variants]
        elif step == KEYS:
            grown = [(*variant, KEYS) for variant in variants]
        else:
            grown = [(*variant, step) for variant in variants]
            grown += [(*variant, VALUES) for variant in variants if VALUES not in variant]
        variants = grown[: 4 * MAX_VARIANTS]
    variants.sort(key=lambda p: (sum(step in LOOPS for step in p), [str(step) for step in p]))
    return tuple(variants[:MAX_VARIANTS])


def collected(values: Sequence[JsonValue], path: Sequence[str | int]) -> list[JsonValue]:
    """Return the different scalars that a path leads to in any of the values, in order of their first appearance."""
    found = [item for value in values for item in reach(value, path)]
    return list(dict.fromkeys(item for item in found if isinstance(item, str | int | float)))


class Missing(LookupError):
    """A path leads nowhere in this value."""


def step_into(value: JsonValue, step: str | int) -> JsonValue:
    """Follow one step that does not loop.

    Raises:
        Missing: The value has no such key or position.
    """
    if isinstance(step, int) and not isinstance(step, bool) and isinstance(value, list):
        if -len(value) <= step < len(value):
            return value[step]
    elif isinstance(step, str) and isinstance(value, dict) and step in value:
        return value[step]
    raise Missing(step)


def elements(value: JsonValue, step: str | int) -> list[JsonValue]:
    """Return what a loop step runs over.

    Raises:
        Missing: The value is not of the kind that the step loops over.
    """
    if step == LIST and isinstance(value, list):
        return value
    if step == KEYS and isinstance(value, dict):
        return list(value)
    if step == VALUES and isinstance(value, dict):
        return list(value.values())
    raise Missing(step)


def reach(value: JsonValue, path: Sequence[str | int]) -> list[JsonValue]:
    """Return everything a path leads to, in order; parts that lead nowhere contribute nothing."""
    found: list[JsonValue] = [value]
    for step in path:
        following: list[JsonValue] = []
        for item in found:
            try:
                if step in LOOPS:
                    following.extend(elements(item, step))
                else:
                    following.append(step_into(item, step))
            except Missing:
                continue
        found = following
    return found
