"""Names and values from strangers are data: the emitted code calls tools and does nothing else."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable

from pydantic import JsonValue

from instar.engine.compiler.cases import cases_for
from instar.engine.compiler.emit import emit
from instar.engine.compiler.mine import mine
from instar.engine.session import Session, ToolSchema

Record = Callable[..., Session]

QUOTES = 'get_"""\n\'; import os; os.system("x") #'
KEY = "it's \"] + __import__('os').listdir() + [\" {{ 7*7 }} ${x} \\ \u202e"
ARGUMENT = "class, *, x=print('hi')"


def hostile_sessions(record: Record) -> list[Session]:
    schema = ToolSchema(
        QUOTES,
        description='"""\nraise SystemExit\n"""',
        parameters={"properties": {ARGUMENT: {"type": "string", "description": '"""; exit() #'}}},
        effect="read",
    )
    follow_up = ToolSchema("get_\\N{BULLET}", effect="read")
    return [
        record(
            f"t{n}",
            [
                (QUOTES, {ARGUMENT: f"value-{n}"}, {KEY: [f"item-{n}-{k}" for k in range(3)]}),
                *((follow_up.name, {KEY: f"item-{n}-{k}", "zip": "a'\"\n"}, f"answer-{n}-{k}") for k in range(3)),
            ],
            tools=[schema, follow_up],
        )
        for n in range(8)
    ]


def test_hostile_names_become_strings_and_never_code(record: Record) -> None:
    sessions = hostile_sessions(record)
    (pattern,) = [p for p in mine(sessions).patterns if len(p.plan.nodes) == 2]
    source = emit(pattern.plan, title='"""\nimport os').source
    tree = ast.parse(source)
    assert source.isascii()
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert called <= {
        "tools.call",
        "errors.append",
        "str",
        "len",
        "list",
        "_limited",
        f"{pattern.plan.nodes[1].name}.append",
    }
    assert [found for found in cases_for(pattern.plan, sessions) if "max_items" not in found.case.arguments]


def test_a_key_that_looks_like_a_loop_is_never_followed(record: Record) -> None:
    sessions = [
        record(
            f"t{n}",
            [
                ("get_user", {"id": f"user{n}"}, {"*": f"card-{n}", "*keys": {"*values": f"card-{n}"}}),
                ("get_card", {"card": f"card-{n}"}, n),
            ],
        )
        for n in range(8)
    ]
    assert mine(sessions).patterns == ()


def test_deep_wide_and_long_sessions_take_no_time_to_speak_of(record: Record) -> None:
    deep: JsonValue = "bottom-value"
    for _ in range(300):
        deep = [deep]
    wide: JsonValue = {f"k{n}": [f"value-{n}-{m}" for m in range(50)] for n in range(2_000)}
    calls: list[tuple[str, dict[str, JsonValue], object]] = [
        (("get_a", "get_b", "get_c")[n % 3], {"id": f"value-{n % 50}-{n % 7}"}, deep if n % 2 else "x" * 10_000)
        for n in range(1_500)
    ]
    sessions = [record(f"t{n}", [("get_wide", {"id": f"start-{n}"}, wide), *calls]) for n in range(4)]
    started = time.process_time()
    mine(sessions)
    assert time.process_time() - started < 20
