from __future__ import annotations

from collections.abc import Callable
from typing import Any

from instar.engine.compiler.cases import cases_for
from instar.engine.compiler.emit import emit
from instar.engine.compiler.folds import fold_plans
from instar.engine.compiler.mine import mine
from instar.engine.compiler.values import canonical
from instar.engine.plan import Plan
from instar.engine.session import Session
from instar.skills.cases import Case

Record = Callable[..., Session]
Customers = Callable[..., list[Session]]


class Tools:
    """Answers emitted code from a case."""

    class ToolError(Exception):
        pass

    def __init__(self, case: Case) -> None:
        self.answers = {canonical([call.tool, call.arguments]): call for call in case.calls}

    def call(self, tool: str, arguments: dict[str, Any]) -> object:
        found = self.answers[canonical([tool, arguments])]
        if found.error is not None:
            raise self.ToolError(found.error)
        return found.result


def replay(plan: Plan, case: Case) -> object:
    namespace: dict[str, Any] = {}
    exec(compile(emit(plan).source, "skill.py", "exec"), namespace)  # noqa: S102 — our own output
    return namespace["run"](Tools(case), **case.arguments)


def test_each_recorded_use_is_a_case_that_the_emitted_code_passes(customers: Customers) -> None:
    sessions = customers(tasks=5, trials=2)
    (pattern,) = mine(sessions).patterns
    cases = cases_for(pattern.plan, sessions)
    assert {found.task for found in cases} == {f"task-{n}" for n in range(5)}
    whole = [found for found in cases if "max_items" not in found.case.arguments]
    assert len(whole) == 5  # the trials of a task say the same
    assert all(len(found.case.calls) == 5 for found in whole)
    for found in cases:
        assert replay(pattern.plan, found.case) == found.case.returns
    assert len({found.case.name for found in cases}) == len(cases)


def test_a_case_cites_the_calls_and_results_it_is_made_of(customers: Customers) -> None:
    sessions = customers(tasks=4, trials=1)
    (pattern,) = mine(sessions).patterns
    pages = {session.evidence_id(step.index) for session in sessions for step in session.steps}
    for found in cases_for(pattern.plan, sessions):
        assert len(found.evidence) == (6 if "max_items" in found.case.arguments else 10)
        assert set(found.evidence) <= pages


def test_a_use_with_a_call_that_nobody_recorded_is_no_case(customers: Customers, record: Record) -> None:
    sessions = customers(tasks=5, trials=1)
    (pattern,) = mine(sessions).patterns
    partly = record(
        "task-x",
        [
            ("find_customer", {"email": "x@example.org"}, "customer_x"),
            ("get_customer", {"customer_id": "customer_x"}, {"orders": ["#W1", "#W2"]}),
            ("get_order", {"order_id": "#W2"}, {"order_id": "#W2"}),
        ],
    )
    assert cases_for(pattern.plan, [partly]) == []


def test_an_answer_given_after_a_write_does_not_hold(customers: Customers, record: Record) -> None:
    (pattern,) = mine(customers(tasks=5, trials=1)).patterns
    broken = record(
        "task-x",
        [
            ("find_customer", {"email": "x@example.org"}, "customer_x"),
            ("get_customer", {"customer_id": "customer_x"}, {"orders": ["#W1"]}),
            ("cancel_order", {"order_id": "#W1"}, "ok"),
            ("get_order", {"order_id": "#W1"}, {"order_id": "#W1"}),
        ],
    )
    assert cases_for(pattern.plan, [broken]) == []


def test_a_recorded_error_of_an_item_leaves_a_partial_result(customers: Customers, record: Record) -> None:
    (pattern,) = mine(customers(tasks=5, trials=1)).patterns
    partly = record(
        "task-x",
        [
            ("find_customer", {"email": "x@example.org"}, "customer_x"),
            ("get_customer", {"customer_id": "customer_x"}, {"orders": ["#W1", "#W2"]}),
            ("get_order", {"order_id": "#W1"}, LookupError("gone")),
            ("get_order", {"order_id": "#W2"}, {"order_id": "#W2"}),
        ],
    )
    found, _ = cases_for(pattern.plan, [partly])
    returned = replay(pattern.plan, found.case)
    assert returned == found.case.returns
    assert isinstance(returned, dict)
    assert returned["order"] == [{"order_id": "#W2"}]
    assert returned["errors"] == [{"tool": "get_order", "arguments": {"order_id": "#W1"}, "error": "gone"}]


def test_a_root_that_fails_ends_with_its_error(customers: Customers, record: Record) -> None:
    (pattern,) = mine(customers(tasks=5, trials=1)).patterns
    failing = record("task-x", [("find_customer", {"email": "nobody"}, LookupError("user not found"))])
    (found,) = cases_for(pattern.plan, [failing])
    assert found.case.raises == "user not found"


def test_a_hold_out_is_mined_without_its_task(customers: Customers) -> None:
    sessions = customers(tasks=5, trials=2)
    (pattern,) = mine(sessions).patterns
    folds = fold_plans(pattern, sessions)
    assert {fold.task for fold in folds} == {f"task-{n}" for n in range(5)}
    for fold in folds:
        assert fold.plan is not None
        left_out = {s.evidence_id(step.index) for s in sessions if s.task == fold.task for step in s.steps}
        assert not left_out & {page for node in fold.plan.nodes for page in node.evidence}
        assert fold.cases
        for case in fold.cases:
            assert replay(fold.plan, case) == case.returns


def test_a_hold_out_without_enough_tasks_left_has_no_plan(customers: Customers) -> None:
    sessions = customers(tasks=3, trials=2)
    (pattern,) = mine(sessions).patterns
    assert all(fold.plan is None and not fold.cases for fold in fold_plans(pattern, sessions))


def test_a_bounded_loop_says_how_many_items_it_left_out(customers: Customers) -> None:
    sessions = customers(tasks=5, trials=1, orders=4)
    (pattern,) = mine(sessions).patterns
    assert pattern.plan.limit == "max_items"
    bounded = [found for found in cases_for(pattern.plan, sessions) if found.case.arguments.get("max_items") == 1]
    assert len(bounded) == 2
    returned = replay(pattern.plan, bounded[0].case)
    assert isinstance(returned, dict)
    assert len(returned["order"]) == 1
    assert returned["errors"] == [{"tool": "get_order", "arguments": {}, "error": "3 items left out"}]


def test_a_switched_follow_up_that_was_recorded_in_part_is_a_case_without_it(record: Record) -> None:
    def session(n: int, cards: int) -> Session:
        keys = [f"card-{n}-{k}" for k in range(3)]
        orders = [f"#W{n}{k}77" for k in range(2)]
        calls = [
            ("get_customer", {"customer_id": f"customer_{n}"}, {"orders": orders, "cards": keys}),
            *(("get_order", {"order_id": i}, {"order_id": i}) for i in orders),
            *(("get_card", {"card": key}, {"limit": 100 + n}) for key in keys[:cards]),
        ]
        return record(f"task-{n}", calls)

    sessions = [session(n, cards=2 if n % 3 == 0 else 0) for n in range(15)]
    pattern = max(mine(sessions).patterns, key=lambda p: len(p.plan.nodes))
    assert [node.switch for node in pattern.plan.nodes] == ["", "", "with_card"]
    found = cases_for(pattern.plan, sessions)
    assert len([one for one in found if set(one.case.arguments) == {"customer_id"}]) == 15
    switched = [one for one in found if one.case.arguments.get("with_card")]
    assert switched
    assert all(one.case.arguments["max_items"] == 1 for one in switched)
    for one in found:
        assert replay(pattern.plan, one.case) == one.case.returns
