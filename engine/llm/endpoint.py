"""One OpenAI-compatible server, asked through the `openai` package and believed in nothing.

Every attempt is reserved in the ledger before it is made. What the server cannot do (JSON schemas, a parameter's
name) is found out from its refusals, never configured. Bodies are bounded in size and in time.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Literal
from urllib.parse import urlsplit

import httpx2
from openai import APIConnectionError, APIStatusError, APITimeoutError, OpenAI
from pydantic import JsonValue, TypeAdapter, ValidationError

from instar.engine.llm.config import Limiter, Model, ModelSettings
from instar.engine.llm.errors import EndpointFailed, NotConfigured, Unusable
from instar.engine.llm.ledger import Ledger
from instar.engine.llm.requests import Completion, Request, shape_in_words
from instar.memstore.tokens import count_tokens

MAX_BODY = 4_000_000
"""Bytes of an answer; no role asks for more than a small part of it."""
FIRST_WAIT = 0.5
"""Seconds before the second attempt; each further one waits twice as long, up to what may be waited at all."""
NEW_LIMIT, OLD_LIMIT = "max_completion_tokens", "max_tokens"
ABOUT_PARAMETERS = frozenset({400, 404, 422, 500, 501})
"""How servers refuse a parameter; one in use answers what it cannot validate with an internal error."""
_LIMIT = re.compile(f"{NEW_LIMIT}|{OLD_LIMIT}")
ABOUT_THIS_REQUEST = frozenset({400, 413, 422})
"""Refusals that say nothing about the next request."""
SAID = 200
"""Characters of a server's own words that are passed on."""
_OBJECT: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])


class _Again(Exception):
    """This attempt failed in a way that another may not; `wait` is what the server asked for."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        self.reason, self.wait = reason, wait
        super().__init__(reason)


class _Cut(Exception):
    """The answer was cut off by its length."""


class _Unknown(Exception):
    """The server does not know a parameter that it was sent."""


@dataclass(slots=True)
class _Abilities:
    """What the server was found to be able to do."""

    form: Literal["json_schema", "json_object", ""] = "json_schema"
    """How the shape of an answer is asked for; empty: in words only."""
    limits: tuple[str, ...] = (NEW_LIMIT, OLD_LIMIT)
    """The names under which it is told how long an answer may be. A server may ignore the one and know the other."""

    def learned_from(self, said: str) -> bool:
        """Whether a refusal names something that can be done without; from now on it is."""
        if self.form and ("response_format" in said or "json_schema" in said):
            self.form = "json_object" if self.form == "json_schema" and "json_object" in said else ""
            return True
        named = _LIMIT.search(said)  # where two are named, the first is what is wrong and the second the remedy
        if named is None or named[0] not in self.limits:
            return False
        self.limits = tuple(name for name in self.limits if name != named[0])
        return bool(self.limits)


@dataclass(slots=True)
class Endpoint:
    """Implements `Completer` for one role's model."""

    model: Model
    caps: ModelSettings
    ledger: Ledger
    run: str
    limiter: Limiter = nullcontext
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    abilities: _Abilities = field(default_factory=_Abilities)
    _client: OpenAI | None = field(default=None, repr=False)

    def complete(self, request: Request) -> Completion:
        """Ask until there is an answer, within the attempts and waits that are allowed.

        Raises:
            EndpointFailed: it could not be reached, or went on failing.
            Unusable: the answer is none: a refusal, a tool call, cut off, too large.
            BudgetSpent: the next attempt might exceed a cap.
        """
        waited, attempts, wider = 0.0, 0, request
        while True:
            attempts += 1
            try:
                with self.limiter():
                    return self._attempt(wider)
            except _Unknown:
                attempts -= 1
            except _Cut:
                attempts -= 1
                doubled = replace(wider, output_tokens=2 * wider.output_tokens)
                if wider is not request or doubled.output_tokens > self.model.context_tokens // 2:
                    reason = f"the answer was cut off after {wider.output_tokens:,} tokens"
                    raise Unusable(self.model.role, self.model.name, reason) from None
                wider = doubled
            except _Again as again:
                wait = FIRST_WAIT * 2 ** (attempts - 1) * (1 + random.random() / 4)  # noqa: S311 — spreads retries
                asked = "" if again.wait is None else f"; it asks to wait {again.wait:.0f} s"
                wait = wait if again.wait is None else again.wait
                if attempts > self.model.retries or waited + wait > self.model.longest_wait:
                    raise EndpointFailed(self.model.host, f"{again.reason}{asked}", attempts) from None
                self.sleep(wait)
                waited += wait

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _attempt(self, request: Request) -> Completion:
        number = self.ledger.reserve(request, self.model, self.caps, self.run)
        sent = received = False
        done: Completion | None = None
        try:
            try:
                stream = self._opened(request)
                with stream as response:
                    sent = received = True
                    body = self._body(response)
            except (APITimeoutError, httpx2.TimeoutException) as error:
                sent = not isinstance(error.__cause__, httpx2.ConnectTimeout)
                raise _Again(f"no answer within {self.model.timeout_seconds:g} s") from None
            except APIStatusError as error:
                self._refused(error)
            except (APIConnectionError, httpx2.HTTPError, httpx2.StreamError) as error:
                cause = error.__cause__ or error
                sent = not isinstance(cause, httpx2.ConnectError)
                raise _Again(f"the connection failed ({type(cause).__name__})") from None
            choice, message, done = self._read(body, request)
            self._accept(choice, message, done)
        finally:
            if done is not None:
                self.ledger.settle(
                    number, self.model, done.input_tokens, done.output_tokens, estimated=done.estimated
                )
            elif not sent:
                self.ledger.release(number)
            else:
                # It was asked and may have answered; what that cost is not known, so the most is assumed.
                output = request.output_tokens if received else 0
                self.ledger.settle(number, self.model, request.input_tokens, output, estimated=True)
        return done

    def _opened(self, request: Request) -> AbstractContextManager[object]:
        if self._client is None:
            if not self.model.base_url:
                raise NotConfigured(self.model.role, "no address")
            own = urlsplit(self.model.base_url).hostname in {"127.0.0.1", "localhost", "::1"}
            self._client = OpenAI(
                api_key=self.model.key or "none",
                base_url=self.model.base_url,
                max_retries=0,
                timeout=self.model.timeout_seconds,
                # A redirect would carry the prompt to somewhere nobody named.
                http_client=httpx2.Client(
                    follow_redirects=False, trust_env=not own, verify=self.model.base_url.startswith("https:")
                ),
            )
        clean = request.redacted()
        form, system = self.abilities.form, clean.system
        extra: dict[str, object] = dict.fromkeys(self.abilities.limits, request.output_tokens)
        if form == "json_schema":
            asked = {"name": request.shape, "strict": True, "schema": request.schema}
            extra["response_format"] = {"type": form, "json_schema": asked}
        else:
            system = f"{system}\n\n{shape_in_words(request.schema)}"
        if form == "json_object":
            extra["response_format"] = {"type": form, "schema": request.schema}
        return self._client.chat.completions.with_streaming_response.create(  # type: ignore[call-overload, no-any-return]
            model=self.model.name,
            messages=[{"role": "system", "content": system}, {"role": "user", "content": clean.user}],
            **extra,
        )

    def _body(self, response: object) -> bytes:
        end = self.clock() + self.model.timeout_seconds
        body = bytearray()
        for chunk in response.iter_bytes():  # type: ignore[attr-defined]
            body += chunk
            if len(body) > MAX_BODY:
                raise Unusable(self.model.role, self.model.name, f"an answer of more than {MAX_BODY:,} bytes")
            if self.clock() > end:
                raise _Again(f"no complete answer within {self.model.timeout_seconds:g} s")
        return bytes(body)

    def _refused(self, error: APIStatusError) -> None:
        """Learn from the server's refusal, or say what to do about it."""
        status, said = error.status_code, _said(error)
        if status in ABOUT_PARAMETERS and self.abilities.learned_from(said):
            raise _Unknown from None
        reason = f"HTTP {status}" + (f": {said}" if said else "")
        if status in {408, 409, 429} or status >= 500:
            raise _Again(reason, _retry_after(error.response.headers.get("retry-after"))) from None
        raise EndpointFailed(self.model.host, reason, 1, stops=status not in ABOUT_THIS_REQUEST) from None

    def _read(self, body: bytes, request: Request) -> tuple[dict[str, JsonValue], dict[str, JsonValue], Completion]:
        """The one answer in a body, with the parts that say how it ended."""
        try:
            whole = _OBJECT.validate_python(json.loads(body))
        except (ValueError, ValidationError, RecursionError):
            raise _Again("the body is no JSON object") from None
        choices = whole.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(choice, dict) or not isinstance(message, dict):
            raise _Again("the body holds no answer")
        content = message.get("content")
        text = content if isinstance(content, str) else ""
        usage = whole.get("usage")
        counts = usage if isinstance(usage, dict) else {}
        given, made = counts.get("prompt_tokens"), counts.get("completion_tokens")
        known = isinstance(given, int) and isinstance(made, int) and given >= 0 and made >= 0
        completion = Completion(
            text=text,
            model=self.model.name,
            input_tokens=given if known and isinstance(given, int) else request.input_tokens,
            output_tokens=made if known and isinstance(made, int) else count_tokens(text),
            estimated=not known,
        )
        return choice, message, completion

    def _accept(self, choice: dict[str, JsonValue], message: dict[str, JsonValue], completion: Completion) -> None:
        refusal, reason = message.get("refusal"), choice.get("finish_reason")
        if refusal or reason == "content_filter":
            said = f": {refusal[:SAID]}" if isinstance(refusal, str) else ""
            raise Unusable(self.model.role, self.model.name, f"it refused{said}")
        if message.get("tool_calls") or message.get("function_call"):
            raise Unusable(self.model.role, self.model.name, "it asked for a tool; it has none")
        if reason == "length":
            raise _Cut
        if not completion.text.strip():
            raise Unusable(self.model.role, self.model.name, "the answer is empty")


def _said(error: APIStatusError) -> str:
    body = error.body
    said = body.get("message") if isinstance(body, dict) else None
    text = said if isinstance(said, str) else ""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:SAID]


def _retry_after(value: str | None) -> float | None:
    """Seconds that a Retry-After header asks for, given as a number or as a date (RFC 9110, section 10.2.3)."""
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError):
        return None
