"""Vectors from an OpenAI-compatible endpoint: asked in batches, patiently, and never given a secret."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from http import HTTPStatus

import numpy as np

from instar.memstore.errors import InvalidRequest
from instar.memstore.recall.errors import EmbedderFailed
from instar.memstore.recall.index import Matrix
from instar.memstore.redaction import redact

AT_ONCE = 128
"""Texts in one request."""
PATIENCE = 10.0
"""Seconds that are spent on waiting for a server that says that it is busy, all its answers together."""
_SECONDS, _SECONDS_FOR_A_QUERY = 60, 10
"""How long a server may say nothing: while it works on a batch, and on a single text, for which somebody waits."""
_LEFT_ALONE = 30.0
"""Seconds for which a server is not asked again that could not be reached or said nothing."""
_LONGEST = 256 * 1024 * 1024
_FIRST_PAUSE = 0.5
_BUSY = frozenset(
    {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)


class Endpoint:
    """An OpenAI-compatible `POST {base}/embeddings`. What it is asked has been redacted first."""

    cheap = False

    def __init__(self, base: str, model: str, *, key: str = "", sleep: Callable[[float], None] = time.sleep) -> None:
        if not base.startswith(("http://", "https://")) or not model:
            raise InvalidRequest("an embedding endpoint is given as MODEL@http://HOST/v1")
        self._base, self._model, self._key, self._sleep = base.rstrip("/"), model, key, sleep
        self.name = f"{model}@{self._base}"
        self._length = 0
        self._silent = (0.0, "")
        """Until when it is left alone, on the monotonic clock, and why."""
        # An address that sends elsewhere would be sent the key as well.
        self._opener = urllib.request.build_opener(_NoRedirect)

    def __call__(self, texts: Sequence[str]) -> Matrix:
        """As the endpoint answers, brought to length 1."""
        parts = [self._ask(texts[at : at + AT_ONCE]) for at in range(0, len(texts), AT_ONCE)]
        found: Matrix = np.concatenate(parts) if parts else np.zeros((0, max(self._length, 1)), np.float32)
        length = np.linalg.norm(found, axis=1, keepdims=True)
        unit: Matrix = np.divide(found, length, out=np.zeros_like(found), where=length > 0)
        return unit

    def _ask(self, texts: Sequence[str]) -> Matrix:
        rows = self._rows(self._answer([redact(text).text or " " for text in texts]))
        if len(rows) != len(texts):
            raise EmbedderFailed(self.name, f"{len(texts)} texts got {len(rows)} vectors")
        try:
            with np.errstate(over="ignore"):
                found = np.asarray(rows, np.float32)
        except (ValueError, TypeError) as error:
            raise EmbedderFailed(self.name, "the vectors are not all of one length, or not numbers") from error
        if found.ndim != 2 or not found.shape[1] or not np.isfinite(found).all():
            raise EmbedderFailed(self.name, f"an answer of shape {found.shape} holds what is not a number")
        if self._length not in (0, found.shape[1]):
            raise EmbedderFailed(self.name, f"vectors of {found.shape[1]} numbers after some of {self._length}")
        self._length = found.shape[1]
        return found

    def _rows(self, answer: object) -> list[object]:
        """The vectors of an answer, in the order of the texts."""
        data = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
            raise EmbedderFailed(self.name, "the answer holds no vectors")
        numbered = {row.get("index"): row.get("embedding") for row in data}
        if list(numbered) and sorted(map(str, numbered)) != sorted(map(str, range(len(data)))):
            raise EmbedderFailed(self.name, "the answer does not say which vector belongs to which text")
        return [numbered[place] for place in range(len(data))]

    def _answer(self, texts: list[str]) -> object:
        """What the server says; one that is busy is asked again, as it wishes, while there is patience left."""
        body = json.dumps({"model": self._model, "input": texts, "encoding_format": "float"}).encode()
        until, why = self._silent
        if time.monotonic() < until:
            raise EmbedderFailed(self.name, f"{why}; it is asked again after {_LEFT_ALONE:.0f} s")
        left, pause = PATIENCE, _FIRST_PAUSE
        while True:
            try:
                return self._once(body, _SECONDS_FOR_A_QUERY if len(texts) == 1 else _SECONDS)
            except urllib.error.HTTPError as error:
                with error:
                    said = error.read(2_000).decode(errors="replace")
                    wished = error.headers.get("Retry-After", "")
                wait = float(wished) if wished.isdecimal() else pause
                if error.code not in _BUSY or wait > left:
                    reason = redact(" ".join(said.split())[:200]).text
                    raise EmbedderFailed(self.name, f"HTTP {error.code}: {reason}") from error
            except (OSError, http.client.HTTPException) as error:
                why = f"{type(error).__name__}: {error}"[:300]
                self._silent = (time.monotonic() + _LEFT_ALONE, why)
                raise EmbedderFailed(self.name, why) from error
            except ValueError as error:
                raise EmbedderFailed(self.name, f"{type(error).__name__}: {error}"[:300]) from error
            self._sleep(wait)
            left, pause = left - wait, pause * 2

    def _once(self, body: bytes, seconds: float) -> object:
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(f"{self._base}/embeddings", body, headers)  # noqa: S310  (checked above)
        with self._opener.open(request, timeout=seconds) as answer:
            said = answer.read(_LONGEST + 1)
        if len(said) > _LONGEST:
            raise ValueError("the answer is too long")
        found: object = json.loads(said)
        return found


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object, **__: object) -> None:
        """Nowhere: the answer is an error."""
        return
