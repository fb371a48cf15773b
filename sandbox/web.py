"""The built-in tool `http.get`, on the trusted side: named hosts only, and never more than asked for.

A name is resolved once and the answer is what is connected to, so that a name cannot point inside after the check. An
address of this machine or of a private network is refused unless the allow-list says so. Redirects are followed only
to hosts that are allowed as well.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import time
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, urljoin, urlsplit

from pydantic import JsonValue

from instar.sandbox.encodings import UTF_8, decoded
from instar.sandbox.errors import ToolError
from instar.sandbox.protocol import MIB

REDIRECTS: Final = (301, 302, 303, 307, 308)
PORTS: Final = {"http": 80, "https": 443}
CHUNK: Final = 65536


def addressed(url: str) -> tuple[SplitResult, str]:
    """A URL in its parts, and its host as allow-lists spell it: with `:port` where it is not the scheme's own.

    Raises:
        ToolError: it is no plain http or https URL.
    """
    if any(not 0x21 <= ord(letter) < 0x7F for letter in url):
        raise ToolError("the URL holds spaces, control characters or letters beyond ASCII")
    try:
        target = urlsplit(url)
        port = target.port
    except ValueError as error:
        raise ToolError(f"the URL cannot be read: {error}") from error
    if target.scheme not in PORTS or not target.hostname or "@" in target.netloc:
        raise ToolError("the URL must be http or https, with a host and without a user")
    return target, target.hostname if port in (None, PORTS[target.scheme]) else f"{target.hostname}:{port}"


@dataclass(frozen=True, slots=True)
class HttpGet:
    """`http.get(url)` answers `{"status", "type", "text"}`; with `encoding="base64"` the text is that of the bytes.

    `hosts` are exact names, with `:port` where it is not the scheme's own. `private` allows addresses that are not
    public. `seconds` bound the whole exchange, `body_bytes` the answer.
    """

    hosts: frozenset[str]
    private: bool = False
    seconds: float = 10.0
    body_bytes: int = MIB
    redirects: int = 3

    def __call__(self, url: str, encoding: str = UTF_8) -> dict[str, JsonValue]:
        """Get one URL.

        Raises:
            ToolError: the host is not allowed, cannot be reached, or answers with too much or with no text.
        """
        deadline = time.monotonic() + self.seconds
        for _ in range(self.redirects + 1):
            target = self._checked(url)
            try:
                answer = self._get(target, deadline, encoding)
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise ToolError(f"{target.hostname} cannot be read: {error}") from error
            if isinstance(answer, dict):
                return answer
            url = urljoin(url, answer)
        raise ToolError(f"more than {self.redirects} redirects")

    def _checked(self, url: str) -> SplitResult:
        target, named = addressed(url)
        if named not in self.hosts:
            raise ToolError(f"the host {named!r} is not allowed")
        return target

    def _get(self, target: SplitResult, deadline: float, encoding: str) -> dict[str, JsonValue] | str:
        """The answer, or where it redirects to."""
        host, port = target.hostname or "", target.port or PORTS[target.scheme]
        channel = self._connect(host, port, deadline)
        try:
            if target.scheme == "https":
                channel = ssl.create_default_context().wrap_socket(channel, server_hostname=host)
            connection = http.client.HTTPConnection(host, port)
            connection.sock = channel
            path = (target.path or "/") + (f"?{target.query}" if target.query else "")
            headers = {"Accept-Encoding": "identity", "Connection": "close", "User-Agent": "instar"}
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            location = response.getheader("Location")
            if response.status in REDIRECTS and location:
                return location
            kind = response.getheader("Content-Type", "")
            body = self._body(response, channel, deadline)
            return {"status": response.status, "type": kind, "text": decoded(body, encoding)}
        finally:
            channel.close()

    def _connect(self, host: str, port: int, deadline: float) -> socket.socket:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        if not self.private and not ipaddress.ip_address(str(address[0]).split("%")[0]).is_global:
            raise ToolError(f"the host {host!r} is at {address[0]}, which is not a public address")
        channel = socket.socket(family, kind, protocol)
        try:
            channel.settimeout(max(0.01, deadline - time.monotonic()))
            channel.connect(address)
        except OSError:
            channel.close()
            raise
        return channel

    def _body(self, response: http.client.HTTPResponse, channel: socket.socket, deadline: float) -> bytes:
        body = bytearray()
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("it takes too long")
            channel.settimeout(left)
            data = response.read1(CHUNK)
            if not data:
                return bytes(body)
            body += data
            if len(body) > self.body_bytes:
                raise ValueError(f"the answer is longer than {self.body_bytes} bytes")
