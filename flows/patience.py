"""Asking Prefect again when it was too busy to take a reviewer's answer.

SQLite lets one write at a time. A request that has begun to read while another wrote is turned away at once with 503,
which means "nothing happened, try again". Prefect's own client does that; its UI shows "Something went wrong" and
leaves the reviewer to guess. So the answer to a review is asked again here, before the browser hears of it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from http import HTTPStatus

from sqlalchemy.exc import DBAPIError
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PAUSES = (0.1, 0.3, 1.0, 2.0, 4.0)
"""Seconds between the tries."""
BODY_LIMIT = 1_000_000
_RESUME = re.compile(r"/api/flow_runs/[0-9a-f-]{36}/resume")


class Patience:
    """An ASGI application that passes everything on, and the answers to reviews again while they meet a 503."""

    def __init__(self, app: ASGIApp, *, pauses: Sequence[float] = PAUSES) -> None:
        self._app, self._pauses = app, pauses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http" or scope["method"] != "POST" or not _RESUME.fullmatch(scope["path"]):
            await self._app(scope, receive, send)
            return
        body = await _body(receive)
        if body is None:
            await PlainTextResponse("An answer is smaller than this.", status_code=413)(scope, receive, send)
            return
        for pause in (*self._pauses, None):
            answer = await self._ask(scope, body, receive)
            if pause is None or answer[0].get("status") != HTTPStatus.SERVICE_UNAVAILABLE:
                break
            await asyncio.sleep(pause)
        for message in answer:
            await send(message)

    async def _ask(self, scope: Scope, body: bytes, receive: Receive) -> list[Message]:
        """One try, its answer kept back."""
        asked = False
        answer: list[Message] = []

        async def again() -> Message:
            nonlocal asked
            if asked:
                return await receive()
            asked = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def keep(message: Message) -> None:
            answer.append(message)

        try:
            await self._app(dict(scope), again, keep)
        except DBAPIError:
            if not answer:
                raise
            # Starlette raises what it has just answered with 503, for the server's log.
        return answer


async def _body(receive: Receive) -> bytes | None:
    """The whole body of a request; None when it is too large."""
    body: bytes = b""
    while True:
        message = await receive()
        part: bytes = message.get("body", b"")
        body += part
        if len(body) > BODY_LIMIT:
            return None
        if not message.get("more_body", False):
            return body
