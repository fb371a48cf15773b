"""A model on loopback: an OpenAI-compatible endpoint whose answers a function decides."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Message = Mapping[str, Any]


@dataclass(frozen=True)
class Turn:
    """What the model answers: words, or calls of tools with their arguments."""

    text: str = ""
    calls: Sequence[tuple[str, Mapping[str, object]]] = ()


Decide = Callable[[Sequence[Message]], Turn]


def script(*turns: Turn) -> Decide:
    """Decide by the number of answers that the model gave before: the first turn first, the last one for ever."""

    def decide(messages: Sequence[Message]) -> Turn:
        given = sum(1 for message in messages if message.get("role") == "assistant")
        return turns[min(given, len(turns) - 1)]

    return decide


@dataclass
class ScriptedEndpoint:
    """`with ScriptedEndpoint(decide) as endpoint:` serves `endpoint.url`. `requests` holds what was asked."""

    decide: Decide
    requests: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"owner": self}))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        self.requests.append(request)
        turn = self.decide(request["messages"])
        number = len(self.requests)
        calls = [
            {
                "id": f"call_{number}_{at}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for at, (name, arguments) in enumerate(turn.calls)
        ]
        message: dict[str, Any] = {"role": "assistant", "content": turn.text or None}
        if calls:
            message["tool_calls"] = calls
        return {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "created": 0,
            "model": request.get("model", "scripted"),
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }


class _Handler(BaseHTTPRequestHandler):
    owner: ScriptedEndpoint
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = json.loads(body)
        answer = self.owner.answer(request)
        if request.get("stream"):
            self._send("text/event-stream", _events(answer))
        else:
            self._send("application/json", json.dumps(answer).encode())

    def _send(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the library's name)
        return


def _events(answer: dict[str, Any]) -> bytes:
    """The answer in pieces, as a streaming endpoint sends it."""
    message = answer["choices"][0]["message"]
    deltas: list[dict[str, Any]] = [{"role": "assistant"}]
    deltas += [{"content": word} for word in (message["content"] or "").split(" ") if word]
    for at, call in enumerate(message.get("tool_calls", [])):
        text = call["function"]["arguments"]
        deltas.append({"tool_calls": [{**call, "index": at, "function": {**call["function"], "arguments": ""}}]})
        for part in (text[: len(text) // 2], text[len(text) // 2 :]):
            deltas.append({"tool_calls": [{"index": at, "function": {"arguments": part}}]})
    chunks = [
        {
            **answer,
            "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": delta, "finish_reason": None}],
        }
        for delta in deltas
    ]
    last = {"index": 0, "delta": {}, "finish_reason": answer["choices"][0]["finish_reason"]}
    chunks.append({**answer, "object": "chat.completion.chunk", "choices": [last]})
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"
