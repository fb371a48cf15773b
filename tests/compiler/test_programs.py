"""What is compiled from the traces of a program does what the program does, on inputs that nobody recorded."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from instar.engine.compiler.mine import mine
from instar.engine.compiler.replay import execute
from instar.engine.compiler.values import canonical, collected, reach
from instar.engine.session import Session

Record = Callable[..., Session]
Call = tuple[str, dict[str, JsonValue]]

PATHS: list[tuple[str | int, ...]] = [
    ("id",),
    ("owner", "ref"),
    ("tags", "*"),
    ("items", "*", "sku"),
    ("shelf", "*keys"),
]


@dataclass(frozen=True)
class Step:
    """Call `tool` for every value at `path` in every result of step `source`.

    With `collect` one call takes all of the values as a list: of each result, or of all results together.
    """

    tool: str
    source: int
    path: tuple[str | int, ...]
    collect: str = ""


def answer(tool: str, arguments: dict[str, JsonValue]) -> JsonValue:
    name = hashlib.sha256(json.dumps([tool, arguments], sort_keys=True).encode()).hexdigest()[:8]
    return {
        "id": f"id-{name}",
        "owner": {"ref": f"ow-{name}"},
        "tags": [f"tag-{name}-{n}" for n in range(2)],
        "items": [{"sku": f"sku-{name}-{n}", "size": "L"} for n in range(2)],
        "shelf": {f"key-{name}-{n}": {"n": n} for n in range(2)},
        "kind": "thing",
    }


def run_program(program: list[Step], value: str) -> list[list[Call]]:
    """The calls of every step, the first of which looks the value up."""
    calls: list[list[Call]] = [[("find_origin", {"name": value})]]
    for step in program:
        results = [answer(*call) for call in calls[step.source]]
        lists: list[list[JsonValue]] = [[*collected([result], step.path)] for result in results]
        if step.collect == "all":
            lists = [[*collected(results, step.path)]]
        if step.collect:
            calls.append([(step.tool, {"keys": [*values]}) for values in lists])
            continue
        values = [found for result in results for found in reach(result, step.path)]
        calls.append([(step.tool, {"key": found}) for found in values])
    return calls


def traces_of(program: list[Step], record: Record, chance: random.Random, *, noise: bool) -> list[Session]:
    """Sessions whose agent runs the program, steps interleaved as the data allows, with unrelated calls between."""
    sessions = []
    for n in range(6):
        groups = run_program(program, f"start-{n}")
        exchanges = []
        for group in groups:
            shuffled = list(group)
            chance.shuffle(shuffled)
            for tool, arguments in shuffled:
                exchanges.append((tool, arguments, answer(tool, arguments)))
                if noise and chance.random() < 0.3:
                    exchanges.append(("get_weather", {"city": f"town {chance.randrange(10**6)}"}, "rain"))
        sessions.append(record(f"task-{n}", exchanges))
    return sessions


def loops(steps: list[Step], number: int) -> bool:
    """Whether a step calls its tool more than once."""
    step = steps[number - 1]
    if step.collect == "all":
        return False
    looping = not step.collect and any(str(part).startswith("*") for part in step.path)
    return looping or (step.source > 0 and loops(steps, step.source))


@st.composite
def programs(draw: st.DrawFn) -> list[Step]:
    steps: list[Step] = []
    for number in range(draw(st.integers(1, 3))):
        source = draw(st.integers(0, number))
        free = [p for p in PATHS if not any(s.source == source and s.path == p for s in steps)]
        path = draw(st.sampled_from(free))
        ways = ["", "each"] if any(str(step).startswith("*") for step in path) else [""]
        if source and loops(steps, source):
            ways.append("all")
        steps.append(Step(f"get_part_{'abc'[number]}", source, path, draw(st.sampled_from(ways))))
    return steps


def calls_of_plan(sessions: list[Session], value: str) -> set[str]:
    patterns = [p for p in mine(sessions).patterns if p.plan.nodes[0].tool == "find_origin"]
    assert patterns
    made: set[str] = set()

    def call(tool: str, arguments: dict[str, JsonValue]) -> JsonValue:
        made.add(canonical([tool, arguments]))
        return answer(tool, arguments)

    switches = {n.switch: True for n in patterns[0].plan.nodes if n.switch}
    execute(patterns[0].plan, {"name": value, **switches}, call)
    return made


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(program=programs(), seed=st.integers(0, 1000), noise=st.booleans())
def test_the_compiled_plan_agrees_with_the_program_on_fresh_inputs(
    record: Record, program: list[Step], seed: int, noise: bool
) -> None:
    sessions = traces_of(program, record, random.Random(seed), noise=noise)  # noqa: S311 — any order will do
    expected = {canonical([tool, arguments]) for group in run_program(program, "fresh") for tool, arguments in group}
    assert calls_of_plan(sessions, "fresh") == expected


def test_unrelated_sessions_change_no_skill(record: Record) -> None:
    program = [Step("get_part_a", 0, ("items", "*", "sku")), Step("get_part_b", 1, ("id",))]
    sessions = traces_of(program, record, random.Random(1), noise=False)  # noqa: S311 — any order will do
    unrelated = [
        record(f"other-{n}", [("get_news", {"topic": f"topic-{n}"}, "text"), ("send_mail", {"to": f"m{n}"}, "ok")])
        for n in range(20)
    ]
    assert mine(sessions + unrelated).patterns == mine(sessions).patterns


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(program=programs(), seed=st.integers(0, 1000), noise=st.booleans())
def test_neither_the_order_of_sessions_nor_irrelevant_ones_change_a_skill(
    record: Record, program: list[Step], seed: int, noise: bool
) -> None:
    chance = random.Random(seed)  # noqa: S311 — any order will do
    sessions = traces_of(program, record, chance, noise=noise)
    known = mine(sessions).patterns
    irrelevant = [
        record(f"other-{n}", [(f"get_{chance.choice('xyz')}", {"topic": f"{chance.random()}"}, f"text {n}")])
        for n in range(chance.randrange(1, 12))
    ]
    elsewhere = traces_of(program[:1], record, chance, noise=noise)
    moved = [replace(session, project="another desk", key=f"moved-{session.key}") for session in elsewhere]
    mixed = sessions + irrelevant
    chance.shuffle(mixed)
    assert mine(mixed).patterns == known
    assert tuple(p for p in mine(mixed + moved).patterns if p.project == "desk") == known
