"""A small sample package, written the way the compiler writes them, and ways to change it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from instar.sandbox.folds import Fold
from instar.skills.cases import Case, RecordedCall
from instar.skills.document import render_skill_md
from instar.skills.manifest import GrantedTool, Manifest
from instar.skills.package import Package, canonical_json, parse_manifest, seal
from instar.skills.test_template import TEST_SKILL, direct_run_notice

NAME = "user-with-orders"
CODE = '''"""Fetches a user and the details of each of their orders."""

from __future__ import annotations


def run(tools, *, user_id: str, limit: int | None = None) -> dict:
    """Return the user and their orders, in order; `limit` keeps the first ones only."""
    user = tools.call("get_user", {"user_id": user_id})
    orders = [tools.get_order(order_id=order_id) for order_id in user["orders"][:limit]]
    return {"user": user, "orders": orders, "open": open_orders(orders)}


def open_orders(orders: list) -> int:
    """Count the orders that are not delivered."""
    return sum(1 for order in orders if order["status"] != "delivered")
'''
INPUT: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"user_id": {"type": "string"}, "limit": {"type": ["integer", "null"]}},
    "required": ["user_id"],
    "additionalProperties": False,
}
OUTPUT: dict[str, JsonValue] = {"type": "object"}


def tool(name: str, effect: str = "read") -> GrantedTool:
    return GrantedTool.model_validate({"name": name, "why": "to look it up", "effect": effect})


TOOLS = (tool("get_user"), tool("get_order"))


def user_case(name: str, user_id: str, orders: Mapping[str, str], limit: int | None = None) -> Case:
    user: dict[str, JsonValue] = {"id": user_id, "orders": list(orders)}
    kept = list(orders.items())[:limit]
    calls = [RecordedCall(tool="get_user", arguments={"user_id": user_id}, result=user)]
    found: list[JsonValue] = []
    for key, status in kept:
        found.append({"id": key, "status": status})
        calls.append(RecordedCall(tool="get_order", arguments={"order_id": key}, result=found[-1]))
    opened = sum(1 for _, status in kept if status != "delivered")
    arguments: dict[str, JsonValue] = {"user_id": user_id} | ({} if limit is None else {"limit": limit})
    return Case(name=name, arguments=arguments, calls=calls, returns={"user": user, "orders": found, "open": opened})


CASES = (
    user_case("two-orders", "u1", {"#1": "delivered", "#2": "pending"}),
    user_case("no-order", "u2", {}),
    user_case("limited", "u3", {"#3": "pending", "#4": "pending", "#5": "delivered"}, limit=2),
    Case(
        name="unknown-user",
        arguments={"user_id": "nobody"},
        calls=[RecordedCall(tool="get_user", arguments={"user_id": "nobody"}, error="user not found")],
        raises="user not found",
    ),
)
HELD_OUT = (user_case("held-out", "u9", {"#7": "pending", "#8": "pending", "#9": "cancelled"}),)


def draft(
    code: str = CODE,
    *,
    name: str = NAME,
    version: str = "0.1.0",
    tools: Sequence[GrantedTool] = TOOLS,
    cases: Sequence[Case] = CASES,
    side_effects: str = "none",
    notice: bool = True,
    input_schema: dict[str, JsonValue] = INPUT,
    output_schema: dict[str, JsonValue] = OUTPUT,
    lineage: str = "prd-1",
    dependencies: Sequence[dict[str, JsonValue]] = (),
    kind: str = "program",
) -> dict[str, str]:
    """A sealed package; see `with_files` to change one afterwards."""
    manifest = Manifest.model_validate(
        {
            "name": name,
            "version": version,
            "kind": kind,
            "input_schema": input_schema,
            "output_schema": output_schema,
            "tools": [granted.model_dump() for granted in tools],
            "side_effects": side_effects,
            "dependencies": list(dependencies),
            "confidence": 0.9,
            "lineage": lineage,
            "files": {},
        }
    )
    written = {
        "SKILL.md": render_skill_md(
            name=name,
            description="Fetch a user with all of their orders in one step.",
            when_to_use=["A customer gives a user id and the answer needs their orders"],
            when_not_to_use=["Only the address of the user is asked for."],
            input_schema=input_schema,
            output_schema=output_schema,
            steps_by_hand=["Call get_user with user_id.", "Call get_order with each id in orders."],
            version=version,
        ),
        "scripts/skill.py": code + ("\n\n" + direct_run_notice(name) if notice else ""),
        "tests/test_skill.py": TEST_SKILL,
        "references/prd.md": "# Requirement\n\nSeen in 4 tasks.\n",
        **{f"tests/cases/{case.name}.json": canonical_json(case.model_dump(mode="json")) for case in cases},
    }
    return seal(written, manifest)


def with_files(base: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """The package with files replaced, added or (None) removed, sealed anew."""
    manifest = parse_manifest(Package(dict(base)))
    changed = {**base, **{path: text for path, text in changes.items() if text is not None}}
    return seal({path: text for path, text in changed.items() if changes.get(path, "") is not None}, manifest)


def fold(files: Mapping[str, str] | None = None, cases: Sequence[Case] = HELD_OUT, task: str = "task-9") -> Fold:
    return Fold(task=task, files=dict(draft() if files is None else files), cases=list(cases))


RECIPE_MD = """---
name: "{name}"
description: "Before a commit: check the style and run the tests."
license: "MIT"
metadata:
  instar-kind: "recipe"
  version: "0.1.0"
---

# {name}

Check what was changed before it is committed.

```sh
sh scripts/check.sh
```
"""
RECIPE = """#!/usr/bin/env bash
set -euo pipefail
ruff check .
pytest -q
"""
GUARD = '''"""Puts an order's number into the form that the order desk expects."""

from __future__ import annotations


def run(tools, *, order_id: str) -> dict:
    """Return the number with its mark."""
    number = order_id.strip()
    return {"order_id": number if number.startswith("#") else "#" + number}
'''
GUARD_INPUT: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"order_id": {"type": "string"}},
    "required": ["order_id"],
    "additionalProperties": False,
}


def guard(code: str = GUARD, *, tools: Sequence[GrantedTool] = (), side_effects: str = "none") -> dict[str, str]:
    """A sealed guard: a check that only looks at what it is given."""
    numbers = {"bare": ("W1", "#W1"), "marked": ("#W2", "#W2"), "spaced": (" W3 ", "#W3")}
    cases = [
        Case(name=name, arguments={"order_id": given}, calls=[], returns={"order_id": wanted})
        for name, (given, wanted) in numbers.items()
    ]
    return draft(
        code,
        name="order-number",
        kind="guard",
        tools=tools,
        cases=cases,
        side_effects=side_effects,
        input_schema=GUARD_INPUT,
    )


def recipe(
    scripts: Mapping[str, str] | None = None, *, tools: Sequence[GrantedTool] = (), name: str = "check-before-commit"
) -> dict[str, str]:
    """A sealed recipe: instructions, and scripts for a coding agent."""
    base = draft(name=name, kind="recipe", tools=tools, side_effects="writes")
    manifest = parse_manifest(Package(base))
    written = {"SKILL.md": RECIPE_MD.format(name=name), "references/prd.md": base["references/prd.md"]}
    return seal({**written, **(scripts or {"scripts/check.sh": RECIPE})}, manifest)
