"""Sessions built from bare calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pytest
from pydantic import JsonValue

from instar.engine.session import (
    Message,
    ResultStatus,
    Session,
    Speaker,
    Step,
    ToolCall,
    ToolResult,
    ToolSchema,
)


class Record(Protocol):
    """Builds a session: one call per turn; an `Exception` as the answer is a failed call."""

    def __call__(
        self, task: str, exchanges: Sequence[tuple[str, dict[str, JsonValue], object]], *, trial: int = 0,
        project: str = "desk", tools: Sequence[ToolSchema] = (), together: bool = False,
    ) -> Session: ...  # fmt: skip


def _record(
    task: str,
    exchanges: Sequence[tuple[str, dict[str, JsonValue], object]],
    *,
    trial: int = 0,
    project: str = "desk",
    tools: Sequence[ToolSchema] = (),
    together: bool = False,
) -> Session:
    steps: list[Step] = [Message(0, Speaker.USER, f"please do {task}")]
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    for number, (tool, arguments, answer) in enumerate(exchanges):
        failed = isinstance(answer, Exception)
        index = 1 + number if together else 1 + 2 * number
        after = 1 + len(exchanges) + number if together else index + 1
        calls.append(ToolCall(index, f"c{number}", tool, arguments, 0 if together else number))
        results.append(
            ToolResult(
                after,
                f"c{number}",
                tool,
                str(answer) if failed else answer,  # type: ignore[arg-type]
                ResultStatus.ERROR if failed else ResultStatus.OK,
                str(answer) if failed else None,
            )
        )
    steps += sorted([*calls, *results], key=lambda step: step.index)
    return Session(f"{task}/{trial}", "test", project, task, tuple(steps), tools=tuple(tools))


@pytest.fixture
def record() -> Record:
    return _record


class Customers(Protocol):
    """Builds sessions that find a customer, read it, and read every order: different values in every task."""

    def __call__(
        self, tasks: int = 6, trials: int = 2, *, orders: int = 3, project: str = "desk"
    ) -> list[Session]: ...


def _customers(tasks: int = 6, trials: int = 2, *, orders: int = 3, project: str = "desk") -> list[Session]:
    sessions = []
    for task in range(tasks):
        ids = [f"#W{task}{n}77" for n in range(orders)]
        for trial in range(trials):
            exchanges: list[tuple[str, dict[str, JsonValue], object]] = [
                ("find_customer", {"email": f"c{task}@example.org"}, f"customer_{task}"),
                ("get_customer", {"customer_id": f"customer_{task}"}, {"name": f"N{task}", "orders": list(ids)}),
                *(("get_order", {"order_id": i}, {"order_id": i, "total": 100 + n}) for n, i in enumerate(ids)),
            ]
            sessions.append(_record(f"task-{task}", exchanges, trial=trial, project=project))
    return sessions


@pytest.fixture
def customers() -> Customers:
    return _customers
