"""Spans that arrive over OTLP become sessions: from the real SDK, by old and new names, and never the same twice."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.testclient import TestClient

from instar.adapters.otlp.receiver import receiver
from instar.core.drain import TRACES, drain
from instar.core.records import SESSION, STEP
from instar.core.runtime import Runtime
from instar.core.settings import Settings
from instar.memstore.testing import GITHUB

NEW = {"input": "gen_ai.input.messages", "output": "gen_ai.output.messages"}
OLD = {"input": "gen_ai.prompt", "output": "gen_ai.completion"}
PROTOBUF = {"Content-Type": "application/x-protobuf"}


@pytest.fixture
def client(settings: Settings) -> Iterator[TestClient]:
    with TestClient(receiver(settings.home / TRACES)) as client:
        yield client


def exported(names: dict[str, str], note: str = "") -> bytes:
    """What an instrumented agent sends, made by the real SDK."""
    kept = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource.create({"service.name": "shop"}))
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = provider.get_tracer("agent")
    with tracer.start_as_current_span("invoke_agent clerk"):
        with tracer.start_as_current_span("chat") as chat:
            chat.set_attribute("gen_ai.operation.name", "chat")
            if names is NEW:
                asked = [{"role": "user", "parts": [{"type": "text", "content": f"Send order 7. {note}"}]}]
                call = {"type": "tool_call", "id": "c1", "name": "get_order", "arguments": {"order": 7}}
                chat.set_attribute(names["input"], json.dumps(asked))
                chat.set_attribute(names["output"], json.dumps([{"role": "assistant", "parts": [call]}]))
            else:
                chat.set_attribute(f"{names['input']}.0.role", "user")
                chat.set_attribute(f"{names['input']}.0.content", f"Send order 7. {note}")
                chat.set_attribute(f"{names['output']}.0.role", "assistant")
                chat.set_attribute(f"{names['output']}.0.content", "I look it up.")
        with tracer.start_as_current_span("execute_tool get_order") as tool:
            tool.set_attribute("gen_ai.operation.name", "execute_tool")
            tool.set_attribute("gen_ai.tool.name", "get_order")
            tool.set_attribute("gen_ai.tool.call.arguments", json.dumps({"order": 7}))
            tool.set_attribute("gen_ai.tool.call.result", json.dumps({"order": 7, "state": "sent"}))
    return encode_spans(kept.get_finished_spans()).SerializeToString()


@pytest.mark.parametrize("names", [NEW, OLD], ids=["new-names", "old-names"])
def test_what_the_real_sdk_exports_becomes_a_session(client: TestClient, rt: Runtime, names: dict[str, str]) -> None:
    assert client.post("/v1/traces", content=exported(names), headers=PROTOBUF).status_code == 200
    assert drain(rt).traces == 1
    (session,) = rt.store.find(rt.principal, scope="local", kind=SESSION)
    steps = [page.content for page in rt.store.find(rt.principal, scope="local", kind=STEP)]
    assert session.scope == "local/shop"
    assert "Send order 7." in str(steps[0]["text"])
    (call,) = [step for step in steps if step["step"] == "call"]
    assert (call["tool"], call["arguments"]) == ("get_order", {"order": 7})
    (result,) = [step for step in steps if step["step"] == "result"]
    assert result["value"] == {"order": 7, "state": "sent"}
    before = rt.store.count(rt.principal, scope="local")
    drain(rt)
    assert rt.store.count(rt.principal, scope="local") == before


def test_secrets_are_taken_out_before_anything_is_written(client: TestClient, settings: Settings) -> None:
    body = gzip.compress(exported(NEW, GITHUB))
    headers = {**PROTOBUF, "Content-Encoding": "gzip"}
    assert client.post("/v1/traces", content=body, headers=headers).status_code == 200
    (file,) = (settings.home / TRACES).iterdir()
    assert "Send order 7." in file.read_text()
    assert GITHUB not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{", {"Content-Type": "application/json"}, 400),
        (b"[" * 200_000, {"Content-Type": "application/json"}, 400),
        (b"[]", {"Content-Type": "application/json"}, 400),
        (b"{}", {"Content-Type": "application/json"}, 400),
        (b"{}", {"Content-Type": "text/plain"}, 415),
        (b"\xff\xff", PROTOBUF, 400),
        (b"no gzip", {**PROTOBUF, "Content-Encoding": "gzip"}, 400),
        (gzip.compress(b"0" * (17 * 1024 * 1024)), {**PROTOBUF, "Content-Encoding": "gzip"}, 413),
        (b"0" * (17 * 1024 * 1024), {"Content-Type": "application/json"}, 413),
        (b"x", {**PROTOBUF, "Content-Encoding": "br"}, 415),
    ],
    ids=["half", "deep", "array", "empty", "type", "protobuf", "gzip", "bomb", "large", "encoding"],
)
def test_what_is_no_export_is_refused_with_a_reason(
    client: TestClient, settings: Settings, body: bytes, headers: dict[str, str], status: int
) -> None:
    answer = client.post("/v1/traces", content=body, headers=headers)
    assert answer.status_code == status
    assert answer.json()["message"]
    assert not (settings.home / TRACES).exists()


def test_a_trace_id_is_never_a_path(client: TestClient, settings: Settings, tmp_path: Path) -> None:
    span = {"traceId": "../../../escape", "spanId": "1", "attributes": []}
    export = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    assert client.post("/v1/traces", json=export).status_code == 400
    assert list(tmp_path.rglob("*escape*")) == []
