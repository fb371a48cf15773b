"""An agent that knows nothing of Instar and exports OpenTelemetry traces; the receiver makes sessions of them."""

import json

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from orders import TASK, get_order, settings
from starlette.testclient import TestClient

from instar.adapters.otlp.receiver import receiver
from instar.core.drain import TRACES, drain
from instar.core.runtime import runtime

home = settings()
spans = InMemorySpanExporter()
provider = TracerProvider(resource=Resource.create({"service.name": "shop"}))
provider.add_span_processor(SimpleSpanProcessor(spans))
tracer = provider.get_tracer("clerk")
with tracer.start_as_current_span("invoke_agent clerk"):
    with tracer.start_as_current_span("chat") as chat:
        asked = [{"role": "user", "parts": [{"type": "text", "content": TASK}]}]
        chat.set_attribute("gen_ai.input.messages", json.dumps(asked))
    with tracer.start_as_current_span("execute_tool get_order") as tool:
        tool.set_attribute("gen_ai.tool.name", "get_order")
        tool.set_attribute("gen_ai.tool.call.arguments", json.dumps({"order": 7}))
        tool.set_attribute("gen_ai.tool.call.result", json.dumps(get_order(7)))

# `instar capture otlp` serves this application; an exporter posts to it.
with TestClient(receiver(home.home / TRACES)) as client:
    body = encode_spans(spans.get_finished_spans()).SerializeToString()
    client.post("/v1/traces", content=body, headers={"Content-Type": "application/x-protobuf"}).raise_for_status()
with runtime(home) as rt:
    print(drain(rt).traces, "trace")
    for page in rt.store.find(rt.principal, scope=home.scope, kind="step"):
        print({name: page.content[name] for name in ("step", "tool", "arguments", "value") if name in page.content})
