"""The order desk: its tools, and the sessions that are recorded at it."""

from __future__ import annotations

import filecmp
import inspect
import itertools
import json
import random
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from examples.order_desk.conversation import Conversation
from examples.order_desk.desk import TOOL_NAMES, Desk, DeskError, Json, Row, schemas, tools
from examples.order_desk.record import sessions, write
from instar.engine.importers import Imported, read_sources
from instar.engine.session import ResultStatus, Session, ToolCall, ToolResult

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples/order_desk"


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk(1)
    yield made
    made.close()


@pytest.fixture(scope="module")
def recorded() -> list[Session]:
    items = list(read_sources([FOLDER / "sessions"]))
    assert all(isinstance(item, Imported) for item in items), items
    return [item.session for item in items if isinstance(item, Imported)]


def one(desk: Desk, query: str) -> Row:
    return desk.rows(query)[0]


# The tools ------------------------------------------------------------------------------------------------------


def test_the_schemas_describe_exactly_the_tools_and_their_arguments() -> None:
    functions = [cast(Row, schema["function"]) for schema in schemas()]
    assert [function["name"] for function in functions] == list(TOOL_NAMES) == list(tools)
    for function in functions:
        signature = inspect.signature(getattr(Desk, cast(str, function["name"])))
        arguments = {name: given for name, given in signature.parameters.items() if name != "self"}
        parameters = cast(Row, function["parameters"])
        assert list(cast(Row, parameters["properties"])) == list(arguments)
        needed = [name for name, given in arguments.items() if given.default is inspect.Parameter.empty]
        assert parameters["required"] == needed


def test_a_customer_is_found_three_ways_and_leads_to_orders_items_and_parcels(desk: Desk) -> None:
    row = one(desk, "SELECT c.* FROM customers c JOIN orders o ON o.customer = c.id WHERE o.status = 'in transit'")
    by_email = desk.call("find_customer_by_email", {"email": str(row["email"]).upper()})
    names = {"first_name": row["first"], "last_name": row["last"], "zip": row["zip"]}
    assert by_email == desk.call("find_customer_by_name_zip", names) == {"customer_id": row["id"]}
    profile = cast(Row, desk.call("get_customer", cast(Row, by_email)))
    orders = [cast(Row, desk.call("get_order", {"order_id": key})) for key in cast("list[str]", profile["orders"])]
    assert orders and {order["customer_id"] for order in orders} == {row["id"]}
    for order in orders:
        items = cast("list[dict[str, float]]", order["items"])
        assert order["total"] == pytest.approx(sum(item["unit_price"] * item["quantity"] for item in items))
        product = cast(Row, desk.call("get_product", {"product_id": cast(Json, items[0]["product_id"])}))
        assert product["name"] == items[0]["name"]
    parcels = [key for order in orders for key in cast("list[str]", order["shipments"])]
    assert parcels


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("get_order", {"order_id": "#W1"}, "order #W1 not found"),
        ("get_customer", {"customer_id": "nobody"}, "customer nobody not found"),
        ("get_product", {"product_id": "0"}, "product 0 not found"),
        ("track_shipment", {"shipment_id": "SH1"}, "shipment SH1 not found"),
        ("find_customer_by_email", {"email": "a@b.example"}, "no customer with the e-mail address a@b.example"),
        ("get_order", {}, "invalid arguments for get_order: 'order_id' is a required property"),
        (
            "get_return_policy",
            {"category": "cars"},
            "invalid arguments for get_return_policy: category: 'cars' is not",
        ),
        ("fly", {}, "unknown tool fly"),
    ],
)
def test_a_tool_refuses_with_a_message_that_says_why(desk: Desk, tool: str, arguments: Row, message: str) -> None:
    with pytest.raises(DeskError) as caught:
        desk.call(tool, arguments)
    assert str(caught.value).startswith(message)


def test_an_order_id_without_its_hash_is_not_found(desk: Desk) -> None:
    order_id = str(one(desk, "SELECT id FROM orders")["id"])
    with pytest.raises(DeskError, match=f"^order {order_id[1:]} not found$"):
        desk.call("get_order", {"order_id": order_id[1:]})
    assert cast(Row, desk.call("get_order", {"order_id": order_id}))["order_id"] == order_id


def test_a_refund_must_add_up_and_go_to_the_customers_own_payment_method(desk: Desk) -> None:
    order_id = cast(str, one(desk, "SELECT id FROM orders WHERE status = 'delivered'")["id"])
    order = cast(Row, desk.call("get_order", {"order_id": order_id}))
    item = cast("list[Row]", order["items"])[0]
    due = round(cast(float, item["unit_price"]) * cast(int, item["quantity"]), 2)
    wanted: Row = {"order_id": order_id, "item_ids": [item["item_id"]], "refund_to": order["paid_with"]}
    with pytest.raises(DeskError, match="does not add up"):
        desk.call("return_items", wanted | {"amount": due + 1})
    with pytest.raises(DeskError, match="not found for this customer"):
        desk.call("return_items", wanted | {"amount": due, "refund_to": "card_0"})
    desk.call("return_items", wanted | {"amount": due})
    with pytest.raises(DeskError, match="returned already"):
        desk.call("return_items", wanted | {"amount": due})


def test_only_an_order_in_the_warehouse_can_be_cancelled_or_sent_elsewhere(desk: Desk) -> None:
    gone = one(desk, "SELECT id FROM orders WHERE status = 'in transit'")["id"]
    here = one(desk, "SELECT id FROM orders WHERE status = 'processing'")["id"]
    address: Row = {"street": "1 Rose Alley", "city": "Ashford", "zip": "21001"}
    with pytest.raises(DeskError, match="cannot be changed"):
        desk.call("change_address", {"order_id": gone, **address})
    desk.call("change_address", {"order_id": here, **address})
    assert cast(Row, desk.call("get_order", {"order_id": here}))["ship_to"] == address
    for order_id, refused in ((gone, True), (here, False), (here, True)):
        if refused:
            with pytest.raises(DeskError, match="cannot be cancelled"):
                desk.call("cancel_order", {"order_id": order_id, "reason": "no longer needed"})
        else:
            desk.call("cancel_order", {"order_id": order_id, "reason": "no longer needed"})


def test_some_carriers_time_out_once_and_answer_the_second_time(desk: Desk) -> None:
    slow, fast = 0, 0
    for row in desk.rows("SELECT id FROM shipments ORDER BY id"):
        try:
            desk.call("track_shipment", {"shipment_id": row["id"]})
            fast += 1
        except DeskError as error:
            assert "time-out" in str(error)
            slow += 1
            assert desk.call("track_shipment", {"shipment_id": row["id"]})
    assert 0 < slow < fast / 3


def test_the_same_seed_makes_the_same_shop_and_products_are_the_same_in_all() -> None:
    def dump(seed: int, table: str) -> list[Row]:
        made = Desk(seed)
        rows = made.rows(f"SELECT * FROM {table} ORDER BY id")  # noqa: S608
        made.close()
        return rows

    assert dump(5, "orders") == dump(5, "orders") != dump(6, "orders")
    assert dump(5, "products") == dump(6, "products")


def test_the_binding_loads_by_its_path_alone_and_makes_the_shop_on_the_first_call(tmp_path: Path) -> None:
    binding = tomllib.loads((FOLDER / "tools.toml").read_text())["tools"]["desk"]
    module, _, name = binding["python"].partition(":")
    script = (
        f"import sys; sys.path.insert(0, {str(FOLDER / binding['path'])!r}); import {module}\n"
        f"assert {module}._shop.cache_info().currsize == 0\n"
        f"print({module}.{name}['search_products'](query='lamp', max_price=60)[0]['name'])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "Desk lamp\n"


def test_a_shop_in_a_file_keeps_what_was_done(tmp_path: Path) -> None:
    path = str(tmp_path / "shop.db")
    first = Desk(1, path=path)
    order_id = one(first, "SELECT id FROM orders WHERE status = 'processing'")["id"]
    first.call("cancel_order", {"order_id": order_id, "reason": "no longer needed"})
    first.close()
    second = Desk(1, path=path)
    assert cast(Row, second.call("get_order", {"order_id": order_id}))["status"] == "cancelled"
    second.close()


# The recordings -------------------------------------------------------------------------------------------------


def test_the_committed_sessions_are_what_their_seed_records_byte_for_byte(tmp_path: Path) -> None:
    write(sessions(7, 60), tmp_path / "desk.jsonl", per_file=15)
    names = sorted(path.name for path in (FOLDER / "sessions").iterdir())
    assert names == ["desk-1.jsonl", "desk-2.jsonl", "desk-3.jsonl", "desk-4.jsonl"]
    match, mismatch, errors = filecmp.cmpfiles(tmp_path, FOLDER / "sessions", names, shallow=False)
    assert (match, mismatch, errors) == (names, [], [])
    assert sum((FOLDER / "sessions" / name).stat().st_size for name in names) <= 600_000


def test_the_command_writes_what_the_function_yields(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    command = [
        sys.executable,
        "-m",
        "examples.order_desk.record",
        "--seed",
        "3",
        "--sessions",
        "5",
        "--out",
        str(out),
    ]
    subprocess.run(command, cwd=ROOT, check=True)
    assert [json.loads(line) for line in out.read_text().splitlines()] == list(sessions(3, 5))


def test_the_sample_is_varied_and_holds_what_a_real_desk_sees(recorded: list[Session]) -> None:
    assert len({session.page_id for session in recorded}) == len({session.task for session in recorded}) == 60
    assert {session.project for session in recorded} == {"order-desk"}
    assert all(session.tools and session.started_at for session in recorded)
    outcomes = Counter(session.outcome.status.value for session in recorded)
    assert outcomes["success"] >= 40 and outcomes["failure"] >= 6
    kinds = {session.task.split("-")[0] for session in recorded}
    assert len(kinds) >= 9
    sequences = {tuple(call.tool for call, _ in session.exchanges()) for session in recorded}
    assert len(sequences) >= 25
    assert any(
        len({call.turn for call, _ in pair}) == 1 and len(pair) >= 2
        for session in recorded
        for pair in [
            list(group) for _, group in itertools.groupby(session.exchanges(), key=lambda pair: pair[0].turn)
        ]
    )


def test_the_order_id_without_its_hash_fails_again_and_again_and_is_mended(recorded: list[Session]) -> None:
    mended = 0
    for session in recorded:
        exchanges = list(session.exchanges())
        for number, (asked, told) in enumerate(exchanges):
            if told is None or told.status is not ResultStatus.ERROR or asked.tool != "get_order":
                continue
            full = "#W" + str(asked.arguments["order_id"]).lstrip("#W")
            later = exchanges[number + 1 :]
            mended += any(next_call.arguments.get("order_id") == full for next_call, _ in later)
    assert mended >= 4


def test_every_recorded_answer_is_the_desks_own(recorded: list[Session]) -> None:
    """Played again in their order against a fresh shop, all calls are answered as they were recorded."""
    desk = Desk(7)
    for session in sorted(recorded, key=lambda session: session.key):
        for step in session.steps:
            if not isinstance(step, ToolCall):
                continue
            told = next(one for one in session.steps if isinstance(one, ToolResult) and one.call_id == step.call_id)
            try:
                assert desk.call(step.tool, cast(Row, step.arguments)) == told.value
            except DeskError as error:
                assert told.error == f"Error: {error}"
    desk.close()


def test_ten_thousand_sessions_would_take_well_under_a_minute_and_all_differ() -> None:
    count = 600
    start = time.process_time()
    made = list(sessions(11, count))
    seconds = time.process_time() - start
    assert seconds * 10_000 / count < 45, f"{seconds:.2f} s for {count}"
    assert len({json.dumps(session["messages"]) for session in made}) == count
    customers = Counter(
        str(cast(Row, message)["content"])
        for session in made
        for message in cast("list[Json]", session["messages"])
        if str(cast(Row, message).get("content", "")).startswith('{"customer_id": "C')
        and '"orders"' in str(cast(Row, message)["content"])
    )
    assert len(customers) > count / 3


def test_a_stream_of_sessions_is_made_only_as_far_as_it_is_read() -> None:
    assert len(list(itertools.islice(sessions(2, 10**9), 3))) == 3


def test_a_conversation_writes_down_parallel_calls_in_one_message(desk: Desk) -> None:
    talk = Conversation(desk, random.Random(0))  # noqa: S311
    answers = talk.calls([("get_return_policy", {"category": "kitchen"}), ("get_order", {"order_id": "W1"})])
    assert [type(answer).__name__ for answer in answers] == ["dict", "Failed"]
    asked, first, second = talk.messages[1:]
    assert [cast(Row, call)["id"] for call in cast("list[Json]", asked["tool_calls"])] == ["call_1", "call_2"]
    assert (first["tool_call_id"], second["tool_call_id"]) == ("call_1", "call_2")
    assert second["content"] == "Error: order W1 not found"
