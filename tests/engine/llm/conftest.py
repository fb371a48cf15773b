"""Model servers on loopback; nothing else can be reached."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import JsonValue

from instar.engine.llm.config import ROLES, ModelSettings, Role, model_for
from instar.engine.llm.endpoint import Endpoint
from instar.engine.llm.ledger import Ledger
from instar.engine.llm.requests import Request
from instar.engine.llm.testing import ModelServer, say, serving
from instar.engine.session import Message, Session, Speaker, Step, ToolCall, ToolResult


@pytest.fixture(autouse=True)
def only_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: object) -> None:
        host = address[0] if isinstance(address, tuple) else ""
        if host and host not in {"127.0.0.1", "::1"}:
            raise AssertionError(f"a test tried to reach {host}")
        connect(self, address)  # type: ignore[arg-type]

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with serving(say({"a": 1})) as running:
        yield running


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "spend.db")


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def endpoint(server: ModelServer, ledger: Ledger, slept: list[float]) -> Iterator[Callable[..., Endpoint]]:
    made: list[Endpoint] = []

    def make(role: Role = "distill", key: str = "secret-key-of-the-test", **given: object) -> Endpoint:
        caps = ModelSettings.model_validate(
            {"base_url": server.url, "timeout_seconds": 5, "input_price": 1.0, "output_price": 2.0, **given}
        )
        model = model_for(caps, role, {"OPENAI_API_KEY": key})
        made.append(Endpoint(model, caps, ledger, "run-1", sleep=slept.append))
        return made[-1]

    assert "distill" in ROLES
    yield make
    for each in made:
        each.close()


@pytest.fixture
def request_for() -> Callable[..., Request]:
    def make(user: str = "data", *, output_tokens: int = 300, role: Role = "distill") -> Request:
        return Request(
            role=role, model="gpt-4.1-mini", prompt="test@1", document="session-1", system="Do it.", user=user,
            shape="answer", schema={"type": "object"}, output_tokens=output_tokens,
        )  # fmt: skip

    return make


@pytest.fixture
def compilable() -> list[Session]:
    """Sessions with a loop that the miner finds."""
    sessions = []
    for n in range(8):
        orders = [f"#W{n}{k}77" for k in range(3)]
        exchanges: list[tuple[str, dict[str, JsonValue], JsonValue]] = [
            ("get_customer", {"name": f"name-{n}9"}, {"orders": [*orders]}),
            *(("get_order", {"order_id": i}, {"order": i, "total": 100}) for i in orders),
        ]
        steps: list[Step] = [Message(0, Speaker.USER, "please look")]
        for at, (tool, arguments, answer) in enumerate(exchanges):
            steps.append(ToolCall(1 + 2 * at, f"c{at}", tool, arguments, at))
            steps.append(ToolResult(2 + 2 * at, f"c{at}", tool, answer))
        sessions.append(Session(f"s{n}", "test", "desk", f"task-{n}", tuple(steps)))
    return sessions
