from __future__ import annotations

from instar.engine.compiler.wording import skill_name, title_of
from instar.engine.plan import FromParameter, FromResult, Plan, PlanNode, PlanParameter, Support

SUPPORT = Support(sessions=4, tasks=4, calls=4)


def plan(root: str, *followers: tuple[str, str]) -> Plan:
    first = root.removeprefix("get_").removeprefix("search_")
    nodes = [_node(first, root, {"key": FromParameter(name="key")})]
    for tool, field in followers:
        nodes.append(_node(tool.removeprefix("get_"), tool, {"id": FromResult(node=first, path=[field, "*"])}))
    key = PlanParameter(name="key", json_schema={"type": "string"}, description="The key.")
    return Plan(parameters=[key], nodes=nodes)


def _node(name: str, tool: str, arguments: dict[str, FromParameter | FromResult]) -> PlanNode:
    return PlanNode(
        name=name, tool=tool, arguments=arguments, support=SUPPORT, confidence=1, null_rate=0, evidence=["s.00001"]
    )


def test_a_name_says_what_comes_with_what() -> None:
    assert skill_name(plan("get_user", ("get_reservation", "reservations"))) == "user-with-reservations"


def test_a_name_stays_short_and_the_title_lists_everything() -> None:
    long = plan("get_customer", ("get_order", "orders"), ("get_shipment", "shipments"), ("get_product", "items"))
    assert skill_name(long) == "customer-with-orders-and-shipments"
    assert title_of(long) == "Customer with orders, shipments and products"


def test_things_of_one_kind_are_told_apart_from_their_details() -> None:
    assert skill_name(plan("search_products", ("get_product", "ids"))) == "products-with-details"


def test_a_name_that_is_too_long_ends_with_a_whole_word() -> None:
    name = skill_name(plan("get_" + "_".join(["very"] * 20), ("get_item", "items")))
    assert len(name) <= 64
    assert set(name.split("-")) <= {"very", "with", "items"}


def test_a_name_that_is_taken_is_never_taken_over() -> None:
    wanted = plan("get_user", ("get_reservation", "reservations"))
    taken = {"user-with-reservations"}
    second = skill_name(wanted, taken)
    third = skill_name(wanted, taken | {second})
    assert len({*taken, second, third}) == 3
