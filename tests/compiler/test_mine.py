from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pydantic import JsonValue

from instar.engine.compiler.emit import emit
from instar.engine.compiler.mine import mine
from instar.engine.compiler.replay import execute
from instar.engine.compiler.settings import MiningSettings
from instar.engine.plan import FromConstant, FromParameter, FromResult, Plan
from instar.engine.session import Session, ToolSchema

Record = Callable[..., Session]
Customers = Callable[..., list[Session]]


def bindings(plan: Plan, tool: str) -> dict[str, Any]:
    return dict(next(node for node in plan.nodes if node.tool == tool).arguments)


def test_a_chain_with_a_loop_becomes_one_plan(customers: Customers) -> None:
    (pattern,) = mine(customers()).patterns
    assert [node.tool for node in pattern.plan.nodes] == ["find_customer", "get_customer", "get_order"]
    assert bindings(pattern.plan, "find_customer") == {"email": FromParameter(name="email")}
    assert bindings(pattern.plan, "get_customer") == {"customer_id": FromResult(node="customer", path=[])}
    assert bindings(pattern.plan, "get_order")["order_id"].path == ["orders", "*"]
    assert pattern.support.tasks == 6
    assert pattern.support.sessions == 12
    assert pattern.turns_saved == 4.0


def test_the_order_of_sessions_and_other_projects_change_nothing(customers: Customers) -> None:
    sessions = customers() + customers(project="other", orders=2)
    shuffled = list(sessions)
    random.Random(3).shuffle(shuffled)  # noqa: S311 — any order will do
    assert mine(shuffled) == mine(sessions)
    alone = mine(customers()).patterns
    assert [p for p in mine(sessions).patterns if p.project == "desk"] == list(alone)


def test_a_session_imported_twice_counts_once(customers: Customers) -> None:
    assert mine(customers() * 3).patterns == mine(customers()).patterns


def test_repeated_trials_of_two_tasks_are_thin_support_and_said_so(customers: Customers) -> None:
    mined = mine(customers(tasks=2, trials=20), MiningSettings(min_tasks=3))
    assert mined.patterns == ()
    assert mined.abstentions


def test_results_shuffled_between_tasks_yield_no_binding(customers: Customers) -> None:
    sessions = customers(tasks=8, trials=1)
    answers = [[s for s in session.steps if hasattr(s, "status")] for session in sessions]
    shuffled = []
    for n, session in enumerate(sessions):
        foreign = answers[(n + 1) % len(sessions)]
        own = iter(foreign)
        steps = tuple(
            type(step)(step.index, step.call_id, step.tool, next(own).value)  # type: ignore[call-arg,union-attr]
            if hasattr(step, "status")
            else step
            for step in session.steps
        )
        shuffled.append(Session(session.key, "test", "desk", session.task, steps))
    found = [binding for p in mine(shuffled).patterns for node in p.plan.nodes for binding in node.arguments.values()]
    assert not any(isinstance(binding, FromResult) for binding in found)


def test_values_that_every_task_shares_bind_nothing(record: Record) -> None:
    sessions = [
        record(
            f"t{n}",
            [("get_site", {"site": f"site-{n}"}, {"all": ["north", "south", "west"]})]
            + [("get_region", {"region": r}, f"{r}{n}") for r in ("north", "south", "west")],
        )
        for n in range(8)
    ]
    mined = mine(sessions)
    assert mined.patterns == ()
    assert any("null rate" in abstention.reason for abstention in mined.abstentions)


def test_small_numbers_booleans_and_single_characters_bind_nothing(record: Record) -> None:
    sessions = [
        record(
            f"t{n}",
            [
                ("get_a", {"id": f"alpha{n}"}, {"x": n, "y": True, "z": "q"}),
                ("get_b", {"x": n, "y": True, "z": "q"}, "done"),
            ],
        )
        for n in range(8)
    ]
    assert mine(sessions).patterns == ()


def test_a_follow_up_after_a_write_is_no_follow_up(record: Record) -> None:
    sessions = [
        record(
            f"t{n}",
            [
                ("get_user", {"id": f"user{n}"}, {"card": f"card-{n}"}),
                ("update_user", {"id": f"user{n}"}, "ok"),
                ("get_card", {"card": f"card-{n}"}, {"limit": 100 + n}),
            ],
        )
        for n in range(8)
    ]
    assert mine(sessions).patterns == ()


def test_parallel_calls_cannot_depend_on_each_other(record: Record) -> None:
    sessions = [
        record(
            f"t{n}",
            [("get_user", {"id": f"user{n}"}, {"card": f"card-{n}"}), ("get_card", {"card": f"card-{n}"}, n)],
            together=True,
        )
        for n in range(8)
    ]
    assert mine(sessions).patterns == ()


def test_failed_follow_ups_count_against_and_bind_nothing(record: Record) -> None:
    sessions = [
        record(
            f"t{n}",
            [
                ("get_user", {"id": f"user{n}"}, {"card": f"card-{n}"}),
                ("get_card", {"card": f"card-{n}"}, ValueError("no such card")),
            ],
        )
        for n in range(8)
    ]
    assert mine(sessions).patterns == ()


def test_constants_and_one_new_parameter_are_allowed(record: Record) -> None:
    sessions = [
        record(
            f"t{n}",
            [
                ("get_user", {"id": f"user{n}"}, {"city": f"city-{n}"}),
                ("search_shops", {"city": f"city-{n}", "kind": "bakery", "day": f"2024-05-{n + 10}"}, [f"shop{n}"]),
            ],
        )
        for n in range(8)
    ]
    (pattern,) = mine(sessions).patterns
    found = bindings(pattern.plan, "search_shops")
    assert found["kind"] == FromConstant(value="bakery")
    assert found["city"] == FromResult(node="user", path=["city"])
    assert found["day"] == FromParameter(name="day")
    shops = pattern.plan.nodes[1]
    assert shops.optional
    assert next(p for p in pattern.plan.parameters if p.name == "day").json_schema["default"] is None


def test_arguments_of_one_call_come_from_the_same_item_of_a_list(record: Record) -> None:
    def legs(n: int) -> list[JsonValue]:
        return [{"from": f"A{n}{k}", "to": f"B{n}{k}"} for k in range(3)]

    straight, crossed = [], []
    for n in range(8):
        opened = ("get_trip", {"trip": f"trip{n}"}, {"legs": legs(n)})
        straight.append(
            record(f"t{n}", [opened, *(("search_train", {"a": f"A{n}{k}", "b": f"B{n}{k}"}, "x") for k in range(3))])
        )
        crossed.append(
            record(
                f"t{n}",
                [opened, *(("search_train", {"a": f"A{n}{k}", "b": f"B{n}{(k + 1) % 3}"}, "x") for k in (0, 1, 2))],
            )
        )
    (pattern,) = mine(straight).patterns
    assert {tuple(b.path) for b in bindings(pattern.plan, "search_train").values()} == {
        ("legs", "*", "from"),
        ("legs", "*", "to"),
    }
    assert mine(crossed).patterns == ()


def test_an_agent_that_takes_the_first_hit_gets_no_loop(record: Record) -> None:
    sessions = [
        record(
            f"t{n}",
            [
                ("search_books", {"title": f"title {n}"}, [{"isbn": f"isbn-{n}-{k}"} for k in range(5)]),
                ("get_book", {"isbn": f"isbn-{n}-0"}, "text"),
            ],
        )
        for n in range(8)
    ]
    (pattern,) = mine(sessions).patterns
    assert bindings(pattern.plan, "get_book")["isbn"].path == [0, "isbn"]


def test_a_loop_runs_over_the_keys_of_a_collection_but_not_over_the_fields_of_a_record(record: Record) -> None:
    def session(n: int, card: Callable[[int, int], str]) -> Session:
        cards = {card(n, k): {"limit": 100} for k in range(3)}
        calls = [("get_card", {"card": key}, "x") for key in cards]
        return record(f"t{n}", [("get_user", {"id": f"user{n}"}, {"cards": cards}), *calls])

    (pattern,) = mine([session(n, lambda n, k: f"card-{n}-{k}") for n in range(8)]).patterns
    assert bindings(pattern.plan, "get_card")["card"].path == ["cards", "*keys"]
    assert mine([session(n, lambda n, k: f"card-{k}") for n in range(8)]).patterns == ()


def test_a_rare_follow_up_is_switched_on_by_a_parameter(customers: Customers, record: Record) -> None:
    sessions = customers(tasks=12, trials=1)
    for n in range(4):
        sessions.append(
            record(
                f"more-{n}",
                [
                    ("find_customer", {"email": f"z{n}@example.org"}, f"customer_z{n}"),
                    ("get_customer", {"customer_id": f"customer_z{n}"}, {"orders": [], "card": f"card-{n}"}),
                    ("get_card", {"card": f"card-{n}"}, {"limit": n}),
                ],
            )
        )
    (pattern,) = mine(sessions).patterns
    card = next(node for node in pattern.plan.nodes if node.tool == "get_card")
    assert card.switch == "with_card" or card.optional
    assert card.optional


def test_parameters_take_type_and_description_from_the_schema_and_never_a_builtin_as_name(record: Record) -> None:
    properties: JsonValue = {
        "zip": {"type": "string", "description": "The postal code."},
        "class": {"type": "string"},
    }
    schema = ToolSchema("find_user", parameters={"type": "object", "properties": properties})
    sessions = [
        record(
            f"t{n}",
            [
                ("find_user", {"zip": f"1{n}234", "class": f"gold {n}"}, f"user_{n}"),
                ("get_user", {"user": f"user_{n}"}, {"n": n}),
            ],
            tools=[schema],
        )
        for n in range(8)
    ]
    (pattern,) = mine(sessions).patterns
    first, second = pattern.plan.parameters
    assert (first.name, second.name) == ("zip_value", "class_value")
    assert first.json_schema == {"type": "string"}
    assert first.description == "The postal code."


def test_every_citation_is_a_page_of_a_session(customers: Customers) -> None:
    sessions = customers()
    pages = {session.evidence_id(step.index) for session in sessions for step in session.steps}
    (pattern,) = mine(sessions).patterns
    assert set(pattern.evidence) <= pages
    assert all(node.evidence and set(node.evidence) <= set(pattern.evidence) for node in pattern.plan.nodes)


def test_nothing_to_mine_is_an_abstention_not_an_error(record: Record) -> None:
    assert mine([]).patterns == ()
    lonely = mine([record("t", [("get_x", {"id": "a-1"}, "b")])])
    assert lonely.patterns == ()
    assert len(lonely.abstentions) == 1


def test_several_ways_to_one_root_become_one_skill(customers: Customers, record: Record) -> None:
    sessions = customers(tasks=5, trials=1)
    for n in range(5):
        ids = [f"#V{n}{k}99" for k in range(2)]
        sessions.append(
            record(
                f"by-name-{n}",
                [
                    ("find_customer_by_name", {"name": f"Name {n}", "zip": f"9{n}111"}, f"customer_v{n}"),
                    ("get_customer", {"customer_id": f"customer_v{n}"}, {"name": f"Name {n}", "orders": list(ids)}),
                    *(("get_order", {"order_id": i}, {"order_id": i}) for i in ids),
                ],
            )
        )
    (pattern,) = mine(sessions).patterns
    first, second, customer, _ = pattern.plan.nodes
    assert (first.tool, second.tool) == ("find_customer", "find_customer_by_name")
    assert first.optional
    assert second.optional
    assert not customer.optional
    assert pattern.support.tasks == 10
    assert [p.name for p in pattern.plan.parameters] == ["email", "name", "zip_value", "max_items"]
    assert all(p.json_schema["default"] is None for p in pattern.plan.parameters[:3])


def test_calls_known_beforehand_become_one_call_with_a_list(record: Record) -> None:
    def session(n: int, chained: bool) -> Session:
        ids = [f"R{n}{k}" for k in range(3)]
        answers = [{"id": i, "next": ids[k + 1] if chained and k < 2 else "none"} for k, i in enumerate(ids)]
        return record(f"t{n}", [("get_room", {"room": i}, a) for i, a in zip(ids, answers, strict=True)])

    (pattern,) = mine([session(n, chained=False) for n in range(8)]).patterns
    assert bindings(pattern.plan, "get_room") == {"room": FromParameter(name="rooms", path=["*"])}
    assert pattern.turns_saved == 2.0
    chained = mine([session(n, chained=True) for n in range(8)]).patterns
    assert not any(b.path for p in chained for b in bindings(p.plan, "get_room").values() if b.source == "parameter")


def test_the_same_call_once_more_is_no_follow_up(record: Record) -> None:
    sessions = [record(f"t{n}", [("get_state", {"machine": f"machine-{n}"}, "busy")] * 3) for n in range(8)]
    assert mine(sessions).patterns == ()


def orders_at_once(record: Record, n: int, lists: Callable[[list[str]], list[list[str]]]) -> Session:
    ids = [f"#W{n}{k}" for k in range(1 + n % 3)]
    return record(
        f"t{n}",
        [
            ("get_customer", {"email": f"c{n}@example.org"}, {"orders": [{"id": i, "total": 5} for i in ids]}),
            *(("get_orders", {"ids": part}, [f"order {i}" for i in part]) for part in lists(ids)),
        ],
    )


def test_a_list_taken_from_a_result_is_passed_as_one_argument(record: Record) -> None:
    (pattern,) = mine([orders_at_once(record, n, lambda ids: [ids]) for n in range(9)]).patterns
    binding = bindings(pattern.plan, "get_orders")["ids"]
    assert (binding.path, binding.collect) == (["orders", "*", "id"], "each")
    assert 'tools.call("get_orders", arguments)' in emit(pattern.plan).source
    made: list[tuple[str, JsonValue]] = []

    def call(tool: str, arguments: dict[str, JsonValue]) -> JsonValue:
        made.append((tool, arguments))
        return {"orders": [{"id": "a-1"}, {"id": "a-2"}, {"id": "a-1"}]} if tool == "get_customer" else "x"

    execute(pattern.plan, {"email": "new@example.org"}, call)
    assert made[1] == ("get_orders", {"ids": ["a-1", "a-2"]})
    execute(pattern.plan, {"email": "new@example.org"}, lambda tool, _: {"orders": []})
    assert len(made) == 2


def test_lists_that_are_only_a_part_or_always_of_one_show_no_gathering(record: Record) -> None:
    assert mine([orders_at_once(record, n, lambda ids: [ids[:1]]) for n in range(9)]).patterns == ()
    assert mine([orders_at_once(record, 0, lambda ids: [ids]) for _ in range(9)]).patterns == ()


def test_a_list_is_gathered_from_all_results_of_a_loop_once_it_has_ended(record: Record) -> None:
    def session(n: int) -> Session:
        orders = [f"#W{n}{k}" for k in range(2)]
        items = {order: [f"item-{n}-{k}-{at}" for k in range(2)] for at, order in enumerate(orders)}
        return record(
            f"t{n}",
            [
                ("get_customer", {"email": f"c{n}@example.org"}, {"orders": orders}),
                *(("get_order", {"id": order}, {"items": items[order]}) for order in reversed(orders)),
                ("get_prices", {"items": [item for order in orders for item in items[order]]}, [{"price": 3}]),
            ],
        )

    (pattern,) = mine([session(n) for n in range(8)]).patterns
    binding = bindings(pattern.plan, "get_prices")["items"]
    assert (binding.path, binding.collect) == (["items", "*"], "all")
    source = emit(pattern.plan).source
    assert source.index('_collected(order, "items", "*")') > source.index("order.append(")


def test_reads_of_a_coding_agents_own_host_become_no_skill(record: Record) -> None:
    sessions = [
        record(
            f"t{n}",
            [("Grep", {"pattern": f"def f{n}"}, {"files": [f"src/f{n}{k}.py" for k in range(3)]})]
            + [("Read", {"file_path": f"src/f{n}{k}.py"}, f"text {n} {k}") for k in range(3)],
        )
        for n in range(8)
    ]
    assert mine(sessions).patterns == ()
