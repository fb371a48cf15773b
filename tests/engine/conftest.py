"""Builders of recorded sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from pydantic import JsonValue

from instar.engine.session import (
    Message,
    Outcome,
    OutcomeStatus,
    ResultStatus,
    Session,
    Speaker,
    Step,
    ToolCall,
    ToolResult,
)

Said = tuple[str, str]
"""("user", "words") or ("assistant", "words")."""
Called = tuple[str, dict[str, JsonValue], JsonValue] | tuple[str, dict[str, JsonValue], JsonValue, str]
"""Tool, arguments, value, and "error" or "refused" where it did not succeed."""


class Recorder:
    """Makes sessions of few words: each exchange is a turn of its own, unless a list holds parallel ones."""

    def __call__(
        self,
        key: str,
        steps: Sequence[Said | Called | list[Called]],
        *,
        project: str = "shop",
        task: str = "",
        success: bool | None = None,
    ) -> Session:
        made: list[Step] = []
        turn = 0
        for step in steps:
            if isinstance(step, tuple) and step[0] in {"user", "assistant"} and len(step) == 2:
                made.append(Message(len(made), Speaker(step[0]), str(step[1])))
                continue
            calls = step if isinstance(step, list) else [step]
            ids = [f"{key}-{turn}-{number}" for number in range(len(calls))]
            for call_id, call in zip(ids, calls, strict=True):
                made.append(ToolCall(len(made), call_id, call[0], call[1], turn))
            for call_id, call in zip(ids, calls, strict=True):
                status = ResultStatus(call[3]) if len(call) > 3 else ResultStatus.OK
                error = None if status is ResultStatus.OK else str(call[2])
                made.append(ToolResult(len(made), call_id, call[0], call[2], status, error))
            turn += 1
        status = OutcomeStatus.UNKNOWN if success is None else OutcomeStatus("success" if success else "failure")
        basis = "" if success is None else "reward"
        return Session(
            key,
            "test",
            project,
            task or key,
            made,
            Outcome(status, basis, None if success is None else float(success)),
        )


@pytest.fixture
def record() -> Recorder:
    return Recorder()


def _desk(record: Recorder, number: int, *, orders: int = 2, followed: bool = True) -> Session:
    """A session of an order desk: a customer with some orders, all of them fetched or none."""
    customer = f"C{1000 + 37 * number}"
    ids = [f"#W{100_000 + 101 * number + place}" for place in range(orders)]
    name = {"first_name": f"Nora{number}", "last_name": f"Berg{number}"}
    profile: JsonValue = {
        "customer_id": customer,
        "name": name,
        "email": f"nora{number}.berg@mail{number}.test",
        "orders": list(ids),
        "status": "active",
    }
    steps: list[Said | Called | list[Called]] = [
        ("user", f"Where are my orders? I am {customer}."),
        ("get_customer", {"customer_id": customer}, profile),
    ]
    if followed:
        steps += [
            ("get_order", {"order_id": order}, {"order_id": order, "customer_id": customer, "total": 10 + number})
            for order in ids
        ]
    return record(f"desk-{number}", steps, success=True)


@pytest.fixture
def desk(record: Recorder) -> Callable[..., Session]:
    return lambda number, **options: _desk(record, number, **options)


@pytest.fixture
def desks(desk: Callable[..., Session]) -> list[Session]:
    """Twelve sessions of as many tasks; in two of them the orders were not needed."""
    return [desk(number, orders=2 + number % 3, followed=number % 6 != 5) for number in range(12)]
