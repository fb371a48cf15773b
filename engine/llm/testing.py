"""A server on loopback that speaks the chat API, plays completions, and misbehaves on demand."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from pydantic import JsonValue

Asked = dict[str, JsonValue]
"""The JSON body of a request."""
Play = Callable[["Handler", Asked], None]
"""Answers one request, well or badly."""


@dataclass
class ModelServer:
    """Plays what was queued, in order, then `otherwise`. `received` holds every byte that arrived, heads included."""

    otherwise: Play
    queue: list[Play] = field(default_factory=list)
    received: list[bytes] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    url: str = ""
    closing: threading.Event = field(default_factory=threading.Event)
    schemas: bool = True
    """Whether it knows JSON schemas; otherwise it refuses them, as many do."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def play(self, *plays: Play) -> ModelServer:
        """Queue answers."""
        self.queue += plays
        return self


class Handler(BaseHTTPRequestHandler):
    """One connection to a `ModelServer`."""

    model_server: ModelServer

    def do_POST(self) -> None:
        """Read the request, then play."""
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        asked: Asked = json.loads(body)
        server = self.model_server
        with server.lock:
            server.received.append(bytes(self.headers) + body)
            server.asked.append(asked)
            if not server.schemas and "response_format" in asked:
                play = status(400, "response_format is not supported")
            else:
                play = server.queue.pop(0) if server.queue else server.otherwise
        play(self, asked)

    def reply(self, code: int, body: bytes, kind: str = "application/json", **headers: str) -> None:
        """Send a whole answer."""
        self.send_response(code)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 — the name in the base class
        """Keep quiet."""


@contextmanager
def serving(otherwise: Play) -> Iterator[ModelServer]:
    """Run a server for a block."""
    state = ModelServer(otherwise)
    handler = type("BoundHandler", (Handler,), {"model_server": state})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


def completion(
    text: str | None,
    *,
    finish: str = "stop",
    usage: bool = True,
    counts: tuple[int, int] = (100, 20),
    **message: JsonValue,
) -> bytes:
    """The body of an answer; `counts` are the tokens that the server claims for the prompt and the answer."""
    body: Asked = {
        "id": "completion-1",
        "object": "chat.completion",
        "created": 1,
        "model": "played",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}
        ],
    }
    if usage:
        body["usage"] = {"prompt_tokens": counts[0], "completion_tokens": counts[1], "total_tokens": sum(counts)}
    return json.dumps(body).encode()


def say(value: JsonValue, *, usage: bool = True) -> Play:
    """A good answer: a text as it is, anything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return lambda handler, _: handler.reply(200, completion(text, usage=usage))


def status(code: int, message: str = "", **headers: str) -> Play:
    """An error of the server."""
    body = json.dumps({"error": {"message": message, "type": "error"}}).encode()
    return lambda handler, _: handler.reply(code, body, **headers)


def stall(handler: Handler, _: Asked) -> None:
    """Say nothing until the server closes."""
    handler.model_server.closing.wait(20)


def drip(handler: Handler, _: Asked) -> None:
    """Send a byte now and then, for ever."""
    handler.send_response(200)
    handler.send_header("content-type", "application/json")
    handler.end_headers()
    while not handler.model_server.closing.wait(0.05):
        try:
            handler.wfile.write(b" ")
            handler.wfile.flush()
        except OSError:
            return


def half_a_body(handler: Handler, _: Asked) -> None:
    """Promise more than is sent."""
    body = completion('{"a": 1}')
    handler.send_response(200)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body[: len(body) // 2])
    handler.close_connection = True


def a_web_page(handler: Handler, _: Asked) -> None:
    """What a proxy sends in place of an answer."""
    handler.reply(200, b"<html>Sign in</html>", "text/html")


def refuse(handler: Handler, _: Asked) -> None:
    """A refusal by the model."""
    handler.reply(200, completion(None, refusal="I cannot help with that"))


def cut_off(handler: Handler, _: Asked) -> None:
    """An answer that ended at its limit."""
    handler.reply(200, completion('{"a": ', finish="length"))


def call_a_tool(handler: Handler, _: Asked) -> None:
    """A call of a tool that nobody offered."""
    call: JsonValue = [{"id": "1", "type": "function", "function": {"name": "shell", "arguments": "{}"}}]
    handler.reply(200, completion(None, finish="tool_calls", tool_calls=call))


def ten_megabytes(handler: Handler, _: Asked) -> None:
    """Far more than was asked for."""
    try:
        handler.reply(200, completion("x" * 10_000_000))
    except OSError:
        return
