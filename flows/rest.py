"""A few calls of Prefect's REST API without Prefect: a command that only says "this review is decided" stays fast."""

from __future__ import annotations

import base64
import http.client
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import urlsplit

from pydantic import JsonValue

from instar.flows.errors import PrefectRefused

TIMEOUT = 30.0
AUTH = "PREFECT_API_AUTH_STRING"


BUSY_PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0)
"""Seconds between attempts while the server says 503: its database was locked for longer than it waits."""


class _Busy(PrefectRefused):
    """The server is there, and did nothing: asking again is safe."""


@dataclass(frozen=True, slots=True)
class Rest:
    """The API of one server: `address` is "http://127.0.0.1:4213"; `secret` its password, if it has one."""

    address: str
    secret: str = field(default="", repr=False)

    @classmethod
    def of_this_run(cls) -> Rest | None:
        """The server that this process works with, by its environment; None where there is none."""
        url = os.environ.get("PREFECT_API_URL", "")
        return cls(url.removesuffix("/api"), os.environ.get(AUTH, "")) if url else None

    def get(self, path: str) -> JsonValue:
        """What is at `path`; None where there is nothing.

        Raises:
            PrefectRefused: the server does not answer, or says no.
        """
        return self._ask("GET", path, None)

    def post(self, path: str, body: Mapping[str, JsonValue] | Sequence[JsonValue]) -> JsonValue:
        """The answer to `body`; None where there is nothing at `path`.

        Raises:
            PrefectRefused: the server does not answer, or says no.
        """
        return self._ask("POST", path, json.dumps(body))

    def _ask(self, method: str, path: str, body: str | None) -> JsonValue:
        for pause in BUSY_PAUSES:
            try:
                return self._ask_once(method, path, body)
            except _Busy:
                time.sleep(pause)
        return self._ask_once(method, path, body)

    def _ask_once(self, method: str, path: str, body: str | None) -> JsonValue:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if self.secret:
            headers["Authorization"] = "Basic " + base64.b64encode(self.secret.encode()).decode()
        at = urlsplit(self.address)
        # Not through urllib or httpx: those would send the request to the proxy that the environment names.
        connection = http.client.HTTPConnection(at.hostname or "", at.port, timeout=TIMEOUT)
        try:
            connection.request(method, f"/api{path}", body, headers)
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise PrefectRefused(self.address, path, str(error) or type(error).__name__) from error
        finally:
            connection.close()
        if response.status == HTTPStatus.NOT_FOUND:
            return None
        if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
            raise _Busy(self.address, path, "503, it is busy")
        if response.status >= HTTPStatus.BAD_REQUEST:
            raise PrefectRefused(self.address, path, f"{response.status} {text[:200].decode('utf-8', 'replace')}")
        try:
            answer: JsonValue = json.loads(text) if text else None
        except ValueError as error:
            raise PrefectRefused(self.address, path, "the answer is not JSON") from error
        return answer
