"""What stands in front of Prefect's application: who we are, and who may come in.

The server listens on loopback without a password, so every page that the reviewer's browser shows could reach it.
The door keeps other origins out, in the two ways in which they come: a request that carries a foreign `Origin`,
and a foreign name that resolves to 127.0.0.1, which shows in `Host`.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from instar.flows.identity import IDENTITY_PATH, prove


class Door:
    """An ASGI application that answers `IDENTITY_PATH`, refuses other origins, and passes on the rest."""

    def __init__(self, app: ASGIApp, *, token: str, origins: Sequence[str]) -> None:
        self._app, self._token = app, token
        self._origins = frozenset(origins)
        self._names = frozenset(urlsplit(origin).hostname for origin in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
        elif not self._welcome(Headers(scope=scope)):
            refusal = (
                WebSocketClose(code=1008)
                if scope["type"] == "websocket"
                else PlainTextResponse("This server answers its own pages only.", status_code=403)
            )
            await refusal(scope, receive, send)
        elif scope["type"] == "http" and scope["path"] == IDENTITY_PATH:
            challenge = parse_qs(scope["query_string"].decode("latin-1")).get("challenge", [""])[0]
            await PlainTextResponse(prove(self._token, challenge))(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _welcome(self, headers: Headers) -> bool:
        """Other programs of this machine send no `Origin`; browsers always do when they change something."""
        try:
            name = urlsplit(f"//{headers.get('host', '')}").hostname
        except ValueError:
            return False
        origin = headers.get("origin")
        return name in self._names and (origin is None or origin in self._origins)
