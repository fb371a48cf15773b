"""How a server proves that it is ours, and how it is asked."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import secrets
from urllib.parse import urlsplit

IDENTITY_PATH = "/instar/identity"


def prove(token: str, challenge: str) -> str:
    """What only a server that was given `token` can answer to `challenge`."""
    return hmac.new(token.encode(), challenge.encode(), hashlib.sha256).hexdigest()


def answers(address: str, token: str, *, timeout: float) -> bool:
    """Whether a server at `address` is healthy and holds `token`. Anything else at that address is a no.

    `timeout` is in seconds, for each wait.
    """
    challenge = secrets.token_hex(16)
    try:
        at = urlsplit(address)
        # Not through urllib or httpx: those would send the request to the proxy that the environment names.
        connection = http.client.HTTPConnection(at.hostname or "", at.port, timeout=timeout)
    except ValueError:
        return False
    try:
        for path, expected in (
            ("/api/health", b"true"),
            (f"{IDENTITY_PATH}?challenge={challenge}", prove(token, challenge).encode()),
        ):
            connection.request("GET", path)
            response = connection.getresponse()
            if response.status != http.client.OK or not hmac.compare_digest(response.read(1000), expected):
                return False
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return True
