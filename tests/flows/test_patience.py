"""An answer to a review that meets a busy database."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3

import pytest
from sqlalchemy.exc import OperationalError
from starlette.types import Message, Receive, Scope, Send

from instar.flows.patience import BODY_LIMIT, Patience

RUN = "/api/flow_runs/01a2288f-8573-75f8-bc25-54f4720fedf6"


class Busy:
    """Says 503 so many times, then 200 with the body that it got."""

    def __init__(self, times: int) -> None:
        self.times, self.asked = times, list[bytes]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["path"] = "changed by a router"
        body = (await receive())["body"]
        self.asked.append(body)
        status = 503 if len(self.asked) <= self.times else 200
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": body})
        if status == 503:  # as Starlette does, for the log of the server
            raise OperationalError("INSERT", {}, sqlite3.OperationalError("database is locked"))


def ask(app: Busy, *, method: str = "POST", path: str = f"{RUN}/resume", body: tuple[bytes, ...] = (b"yes",)) -> int:
    parts = [{"type": "http.request", "body": part, "more_body": part is not body[-1]} for part in body]
    answer: list[Message] = []

    async def receive() -> Message:
        return parts.pop(0)

    async def send(message: Message) -> None:
        answer.append(message)

    scope = {"type": "http", "method": method, "path": path, "headers": []}
    with contextlib.suppress(OperationalError):
        asyncio.run(Patience(app, pauses=(0, 0, 0))(scope, receive, send))
    assert len(answer) == 2, "one answer, however often it was asked"
    return int(answer[0]["status"])


@pytest.mark.parametrize(("busy", "status"), [(0, 200), (1, 200), (3, 200), (4, 503)])
def test_an_answer_is_asked_again_while_the_database_is_busy(busy: int, status: int) -> None:
    app = Busy(busy)
    assert ask(app, body=(b"y", b"es")) == status
    assert app.asked == [b"yes"] * min(busy + 1, 4)


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", RUN), ("GET", f"{RUN}/resume"), ("POST", "/api/flow_runs/filter"), ("POST", f"/x{RUN}/resume")],
)
def test_everything_else_is_asked_once(method: str, path: str) -> None:
    app = Busy(1)
    assert ask(app, method=method, path=path) == 503
    assert len(app.asked) == 1


def test_what_is_too_large_for_an_answer_is_refused() -> None:
    app = Busy(0)
    assert ask(app, body=(b"x" * BODY_LIMIT, b"x")) == 413
    assert app.asked == []
