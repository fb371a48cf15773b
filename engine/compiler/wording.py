"""Words for a plan: what it is called, what it is about, when it fits; the same for the same plan."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from instar.engine.compiler.effects import PLAIN_READS
from instar.engine.compiler.naming import words
from instar.engine.compiler.plans import axes_of, defaults, references
from instar.engine.compiler.uses import entries
from instar.engine.plan import FromParameter, Plan, PlanNode, PlanParameter

MAX_NAME = 64
NAMED = 2
"""So many of the things that come with the first one stand in a name; the title lists them all."""
_VAGUE = frozenset(
    [
        "detail",
        "details",
        "info",
        "information",
        "data",
        "record",
        "records",
        "id",
        "ids",
        "list",
        "result",
        "results",
        "value",
        "number",
    ]
)


def subjects(plan: Plan) -> list[str]:
    """What the nodes are about, in order and each once: "user", "reservations" (plural where the node loops)."""
    axes = axes_of(plan)
    found: dict[str, str] = {}
    for node in plan.nodes:
        noun = _noun(node)
        if noun and (noun not in found or axes[node.name]):
            found[noun] = plural(noun) if axes[node.name] else noun
    first, *further = found.values() or [""]
    return [first, *(noun if noun != first else "details" for noun in further)] if first else []


def title_of(plan: Plan) -> str:
    """A short title: "User with reservations"."""
    nouns = subjects(plan) or [plan.nodes[0].tool]
    if len(nouns) > 1:
        return _capital(f"{nouns[0]} with {listed(nouns[1:])}")
    if is_batch(plan):
        return f"Several {nouns[0]}"
    inputs = listed([spoken(parameter.name) for parameter in given(plan)])
    return _capital(f"{nouns[0]} by {inputs}" if inputs else nouns[0])


def skill_name(plan: Plan, taken: Collection[str] = ()) -> str:
    """A name that says the situation: `user-with-reservations`; longer, then numbered, while another one has it."""
    nouns = subjects(plan) or [plan.nodes[0].tool]
    inputs = "-".join(["by", *(p.name.removesuffix("_value") for p in given(plan))]) if given(plan) else ""
    alone = f"several-{nouns[0]}" if is_batch(plan) else f"{nouns[0]}-{inputs}"
    short = f"{nouns[0]}-with-{'-and-'.join(nouns[1 : 1 + NAMED])}" if len(nouns) > 1 else alone
    for wanted in (short, f"{short}-{inputs}"):
        name = _slug(wanted)
        if name not in taken:
            return name
    return next(name for number in range(2, 10_000) if (name := f"{_slug(short)[:58]}-{number}") not in taken)


def is_batch(plan: Plan) -> bool:
    """Whether the plan makes one kind of call for each item of a list that it is given."""
    return len(plan.nodes) == 1 and bool(axes_of(plan)[plan.nodes[0].name])


def given(plan: Plan) -> list[PlanParameter]:
    """The parameters that must be given."""
    optional = defaults(plan)
    return [parameter for parameter in plan.parameters if parameter.name not in optional]


def ways_in(plan: Plan) -> list[list[str]]:
    """What must be given, in words: one list for each alternative way to begin."""
    ways: dict[tuple[str, ...], None] = {}
    for node in entries(plan):
        names = [
            option.name
            for binding in node.arguments.values()
            for option in references(binding)
            if isinstance(option, FromParameter)
        ]
        ways[tuple(spoken(name) for name in names)] = None
    return [list(way) for way in ways if way]


def spoken(name: str) -> str:
    """A name as words: `user_id` → "user id"."""
    return " ".join(words(name.removesuffix("_value"))) or name


def listed(items: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return f"{', '.join(items[:-1])} and {items[-1]}" if len(items) > 1 else "".join(items)


def plural(noun: str) -> str:
    """The plural of an English noun by its ending."""
    if re.search(r"[^aeiou]y$", noun):
        return f"{noun[:-1]}ies"
    if re.search(r"(s|x|ch|sh)$", noun):
        return noun if noun.endswith("s") and not noun.endswith("ss") else f"{noun}es"
    return f"{noun}s"


def _noun(node: PlanNode) -> str:
    found = re.sub(r"_?\d+$", "", node.name).split("_")
    found = found[: found.index("by")] if "by" in found[1:] else found
    found = [word for word in found if word not in PLAIN_READS]
    return " ".join([word for word in found if word not in _VAGUE] or found)


def _slug(text: str) -> str:
    ascii_only = text.encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", ascii_only).strip("-") or "skill"
    if len(slug) > MAX_NAME:
        slug = slug[: MAX_NAME + 1].rpartition("-")[0] or slug
    return slug[:MAX_NAME]


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
