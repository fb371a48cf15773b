from __future__ import annotations

from collections.abc import Callable

from instar.engine.compiler.firing import Context, fires, names, shape
from instar.engine.compiler.mine import mine
from instar.engine.plan import FiringRule
from instar.engine.session import Session

Record = Callable[..., Session]
Customers = Callable[..., list[Session]]


def rule(**fields: object) -> FiringRule:
    return FiringRule.model_validate(
        {"fire": True, "needed_share": 1, "kept_share": 1, "uses": 1, "tasks": 1} | fields
    )


def test_a_rule_reads_only_what_was_visible_before_the_call() -> None:
    named = rule(unless_named=[r"\#[A-Z0-9]{8}"])
    assert fires(named, Context("please return my last order", frozenset()))
    assert not fires(named, Context("please return order #W2378156, thanks", frozenset()))
    called = rule(unless_called=["get_order"])
    assert fires(called, Context("", frozenset({"find_customer"})))
    assert not fires(called, Context("", frozenset({"get_order"})))
    assert not fires(rule(fire=False), Context("", frozenset()))


def test_a_word_without_a_digit_is_no_identifier() -> None:
    assert names("[A-Z0-9]{6}", "reservation M05KNL")
    assert not names("[A-Z0-9]{6}", "PLEASE CANCEL")
    assert shape("M05KNL") == "[A-Z0-9]{6}"
    assert shape("two words 1") == ""
    assert shape("plain") == ""
    assert shape("user_name_9620") == "[a-z]+_[a-z]+_[A-Z0-9]{4}"


def test_a_skill_whose_calls_are_all_needed_fires_without_conditions(customers: Customers) -> None:
    (pattern,) = mine(customers()).patterns
    found = pattern.plan.firing
    assert found is not None
    assert found.fire
    assert found.unless_named == found.unless_called == []
    assert found.needed_share == 1.0
    assert found.kept_share == 1.0


def test_agents_that_fetched_items_before_are_left_alone(record: Record) -> None:
    sessions = []
    for n in range(10):
        ids = [f"#W{n}{k}77" for k in range(4)]
        user = ("get_customer", {"customer_id": f"customer_{n}"}, {"orders": list(ids)})
        orders = [("get_order", {"order_id": i}, {"order_id": i, "n": n}) for i in ids]
        sessions.append(record(f"all-{n}", [user, *orders]))
        sessions.append(record(f"one-{n}", [orders[0], user]))
    best = max(mine(sessions).patterns, key=lambda p: len(p.plan.nodes))
    found = best.plan.firing
    assert found is not None
    assert found.unless_called == ["get_order"]
    assert found.needed_share == 1.0


def test_a_batch_of_given_calls_is_offered_never_fired(record: Record) -> None:
    sessions = [
        record(f"t{n}", [("get_room", {"room": f"R{n}{k}"}, {"n": n, "k": k}) for k in range(3)]) for n in range(8)
    ]
    (pattern,) = mine(sessions).patterns
    assert pattern.plan.firing is not None
    assert not pattern.plan.firing.fire


def test_a_skill_that_mostly_fetches_what_nobody_needs_is_offered(record: Record) -> None:
    sessions = []
    for n in range(16):
        ids = [f"#W{n}{k}77" for k in range(5)]
        user = ("get_customer", {"customer_id": f"customer_{n}"}, {"orders": list(ids)})
        wanted = 2 if n % 4 == 0 else 0
        sessions.append(record(f"t{n}", [user, *(("get_order", {"order_id": i}, {"n": i}) for i in ids[:wanted])]))
    (pattern,) = [p for p in mine(sessions).patterns if len(p.plan.nodes) == 2]
    assert pattern.plan.firing is not None
    assert not pattern.plan.firing.fire
    assert pattern.plan.firing.needed_share < 0.45
