"""Names for the nodes and parameters of a plan: from the tools' own words, safe as Python variables."""

from __future__ import annotations

import re
from collections.abc import Collection

from instar.engine.compiler.effects import NOUNISH_READS, PLAIN_READS
from instar.engine.compiler.plans import identifier

MAX_NAME = 40

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NAMESPACE = re.compile(r"__|[.:/]")


def words(name: str) -> list[str]:
    """Split a tool or argument name into lower-case words; a namespace before `__`, `.`, `:` or `/` is left out."""
    return [word.lower() for word in _WORD.findall(_NAMESPACE.split(name)[-1])]


def node_name(tool: str, taken: Collection[str], *, whole: bool = False) -> str:
    """Name a result after what the tool returns: get_user_details → user_details, find_user_id_by_email → user_id.

    The `whole` name keeps what it was found by: user_id_by_email.
    """
    found = words(tool)
    verb = next((i for i, word in enumerate(found[:3]) if word in PLAIN_READS | NOUNISH_READS), -1)
    noun = found[verb + 1 :]
    if "by" in noun[1:] and not whole:
        noun = noun[: noun.index("by")]
    name = "_".join(noun or found)
    return unique(f"{name}_result" if name in taken else name, taken, "result")


def parameter_name(argument: str, taken: Collection[str]) -> str:
    """Name a parameter after the tool's argument; a keyword or builtin such as `zip` becomes `zip_value`."""
    name = re.sub(r"\W+", "_", argument, flags=re.ASCII).strip("_")
    if name and not name[0].isdigit() and not identifier(name) and name not in taken:
        return unique(f"{name}_value", taken, "argument")
    return unique(name, taken, "argument")


def unique(wanted: str, taken: Collection[str], fallback: str) -> str:
    """Return an identifier like `wanted` that is not in `taken`."""
    base = wanted[:MAX_NAME].strip("_")
    if not base or base[0].isdigit():
        base = f"{fallback}_{base}".strip("_")
    if not identifier(base):
        base = f"{base}_{fallback}"
    name, number = base, 2
    while name in taken or not identifier(name):
        name, number = f"{base}_{number}", number + 1
    return name


def plural(name: str) -> str:
    """Return a name for several: reservation_id → reservation_ids, details stays."""
    if name.endswith("s"):
        return f"{name}_list"
    return f"{name[:-1]}ies" if name.endswith("y") and name[-2:-1] not in "aeiou" else f"{name}s"


def singular(word: str) -> str:
    """Return a name for one of several: reservations → reservation, entries → entry; else one_…."""
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith("s") and not word.endswith("ss") and len(word) > 3:
        return word[:-1]
    return f"{word}_item"
