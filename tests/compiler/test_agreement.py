"""The emitted code does what the interpreter of plans does: random plans over a random world of tools."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from instar.engine.compiler.emit import emit
from instar.engine.compiler.errors import CallFailed, NothingGiven, PlanError, ValueAbsent
from instar.engine.compiler.plans import axes_of
from instar.engine.compiler.replay import execute
from instar.engine.plan import (
    Binding,
    FromConstant,
    FromEither,
    FromParameter,
    FromResult,
    Plan,
    PlanNode,
    PlanParameter,
    Support,
)

PATHS: list[list[str | int]] = [
    [], ["id"], ["maybe"], ["absent"], ["items", 0, "sku"], ["items", 5], ["owner", "id"], ["tags", "*"],
    ["items", "*", "sku"], ["items", "*", "maybe"], ["items", "*", "parts", "*"], ["shelf", "*keys"],
    ["shelf", "*values", "id"], ["id", "*"], ["maybe", "*"], ["owner", "*keys"],
]  # fmt: skip
TOOLS = ["get_thing", "retail.find-it", "odd\"tool'name", "a" * 90]


def roll(*parts: object) -> int:
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "big")


class World:
    """Answers every call from a hash of it; one call in nine fails, and some parts are missing or null."""

    class ToolError(Exception):
        pass

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.made: list[str] = []

    def answer(self, tool: str, arguments: dict[str, JsonValue]) -> JsonValue:
        self.made.append(json.dumps([tool, arguments]))
        number = roll(self.seed, tool, json.dumps(arguments, sort_keys=True))
        if number % 9 == 0:
            raise LookupError(f"{number} not found")
        name = f"x{number % 1000}"
        answer: dict[str, JsonValue] = {
            "id": name,
            "maybe": None if number % 4 == 0 else f"m{name}",
            "owner": {"id": f"o{name}"},
            "tags": [f"t{name}{n}" for n in range(number % 3)],
            "items": [
                {"sku": f"s{name}{n}", "maybe": None if n else name, "parts": [f"p{n}{k}" for k in range(n)]}
                for n in range(number % 4)
            ],
            "shelf": {f"k{name}{n}": {"id": f"i{n}"} for n in range(number % 3)},
        }
        if number % 7 == 0:
            del answer["items"]
        return answer if number % 11 else name

    def call(self, tool: str, arguments: dict[str, JsonValue]) -> JsonValue:
        """As the `tools` object of emitted code."""
        try:
            return self.answer(tool, arguments)
        except LookupError as error:
            raise self.ToolError(str(error)) from None

    def interpreted(self, tool: str, arguments: dict[str, JsonValue]) -> JsonValue:
        """As the interpreter wants it."""
        try:
            return self.answer(tool, arguments)
        except LookupError as error:
            raise CallFailed(tool, str(error)) from None


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    parameters = [
        PlanParameter(name="first", json_schema={"type": "string"}, description="given"),
        PlanParameter(name="second", json_schema={"type": "string", "default": None}, description="may be given"),
        PlanParameter(name="several", json_schema={"type": "array"}, description="a list"),
        PlanParameter(name="max_items", json_schema={"type": "integer", "default": 2}, description="a bound"),
        PlanParameter(name="with_more", json_schema={"type": "boolean", "default": False}, description="a switch"),
    ]
    nodes: list[PlanNode] = []
    for number in range(draw(st.integers(1, 6))):
        arguments: dict[str, Binding] = {}
        for name in draw(
            st.lists(st.sampled_from(["id", "key", "for", "an arg"]), min_size=1, max_size=2, unique=True)
        ):
            arguments[name] = draw(bindings([node.name for node in nodes]))
        optional = draw(st.booleans())
        node = PlanNode(
            name=f"node_{number}",
            tool=draw(st.sampled_from(TOOLS)),
            arguments=arguments,
            optional=optional,
            switch="with_more" if optional and draw(st.booleans()) else "",
            support=Support(sessions=4, tasks=3, calls=4),
            confidence=1,
            null_rate=0,
            evidence=["page"],
        )
        for candidate in (node, node.model_copy(update={"optional": True})):
            try:
                axes_of(Plan(parameters=parameters, nodes=[*nodes, candidate]))
            except PlanError:
                continue
            nodes.append(candidate)
            break
    if not nodes:
        nodes.append(node.model_copy(update={"arguments": {"id": FromParameter(name="first")}}))
    return Plan(parameters=parameters, nodes=nodes, limit=draw(st.sampled_from(["", "max_items"])))


@st.composite
def bindings(draw: st.DrawFn, nodes: list[str]) -> Binding:
    kind = draw(st.sampled_from(["parameter", "constant", "either", "batch"] + ["result"] * 6 + ["list"] * 3))
    if kind == "constant":
        value: JsonValue = draw(st.sampled_from(["it's", 'a "b"', 7, 2.5, True, "\n\u00e9\u202e", "{{x}}"]))
        return FromConstant(value=value)
    if kind == "batch":
        return FromParameter(name="several", path=["*"])
    if kind == "parameter" or not nodes:
        return FromParameter(name=draw(st.sampled_from(["first", "second"])))
    if kind == "either":
        straight = [path for path in PATHS if not any(str(step).startswith("*") for step in path)]
        return FromEither(
            options=[
                FromParameter(name="second"),
                FromResult(node=draw(st.sampled_from(nodes)), path=draw(st.sampled_from(straight))),
            ]
        )
    collect = draw(st.sampled_from(["each", "all"])) if kind == "list" else ""
    return FromResult(node=draw(st.sampled_from(nodes)), path=draw(st.sampled_from(PATHS)), collect=collect)


def run_emitted(plan: Plan, world: World, arguments: dict[str, JsonValue]) -> object:
    namespace: dict[str, Any] = {}
    exec(compile(emit(plan, title="x").source, "skill.py", "exec"), namespace)  # noqa: S102 — our own output
    return namespace["run"](world, **arguments)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plan=plans(), seed=st.integers(0, 10_000), second=st.booleans(), more=st.booleans())
def test_the_code_makes_the_same_calls_and_returns_the_same_as_the_interpreter(
    plan: Plan, seed: int, second: bool, more: bool
) -> None:
    arguments: dict[str, JsonValue] = {"first": "x1", "several": ["x2", "x3"], "with_more": more}
    if second:
        arguments["second"] = "x9"
    left, right = World(seed), World(seed)
    expected: object
    try:
        expected = execute(plan, arguments, left.interpreted)
    except CallFailed as failure:
        with pytest.raises(World.ToolError, match=failure.error):
            run_emitted(plan, right, arguments)
    except NothingGiven as nothing:
        with pytest.raises(ValueError, match=re.escape(nothing.text)):
            run_emitted(plan, right, arguments)
    except ValueAbsent:
        with pytest.raises((KeyError, IndexError, TypeError, AttributeError, ValueError)):
            run_emitted(plan, right, arguments)
    else:
        assert run_emitted(plan, right, arguments) == expected
        assert left.made == right.made


def test_a_loop_that_is_switched_off_reports_nothing_as_left_out() -> None:
    def node(name: str, binding: Binding, switch: str) -> PlanNode:
        support = Support(sessions=4, tasks=3, calls=4)
        return PlanNode(
            name=name, tool=name, arguments={"id": binding}, optional=bool(switch), switch=switch, support=support,
            confidence=1, null_rate=0, evidence=["page"],
        )  # fmt: skip

    plan = Plan(
        parameters=[
            PlanParameter(name="first", json_schema={"type": "string"}, description="given"),
            PlanParameter(name="limit", json_schema={"type": "integer", "default": 1}, description="a bound"),
            PlanParameter(name="more", json_schema={"type": "boolean", "default": False}, description="a switch"),
        ],
        nodes=[
            node("get_order", FromParameter(name="first"), ""),
            node("get_item", FromResult(node="get_order", path=["*"]), "more"),
        ],
        limit="limit",
    )

    def call(tool: str, arguments: dict[str, JsonValue]) -> JsonValue:
        return ["a", "b", "c"] if tool == "get_order" else "item"

    assert execute(plan, {"first": "x"}, call)["errors"] == []
    assert execute(plan, {"first": "x", "more": True}, call)["errors"] != []


def test_the_code_needs_no_formatter_and_no_linter(tmp_path: Path) -> None:
    written = 0

    @settings(max_examples=150, deadline=None, database=None, derandomize=True)
    @given(plan=plans())
    def write(plan: Plan) -> None:
        nonlocal written
        (tmp_path / f"skill_{written}.py").write_text(emit(plan, title='A "title"\n with `\\` in it').source)
        written += 1

    write()
    assert written >= 100
    style = ["--isolated", "--no-cache", "--line-length", "118", "--target-version", "py311", str(tmp_path)]
    rules = "E,F,I,W,B,A,C4,UP,PIE,S,BLE,T20,RET,SIM"
    ruff = [sys.executable, "-m", "ruff"]
    checked = subprocess.run(
        [*ruff, "check", "--select", rules, "--ignore", "E501", *style], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout[-3000:]
    formatted = subprocess.run([*ruff, "format", "--diff", *style], capture_output=True, text=True, check=False)
    assert formatted.returncode == 0, formatted.stdout[-3000:] + formatted.stderr[-500:]
