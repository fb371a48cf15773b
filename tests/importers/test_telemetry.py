"""Telemetry of agents: traces exported from Langfuse, and spans of OpenTelemetry."""

from __future__ import annotations

from typing import cast

import pytest

from instar.engine.importers import detect
from instar.engine.session import Message, OutcomeStatus, ResultStatus

from .conftest import Write, data_folder, read


def observed(kind: str, start: int, **fields: object) -> dict[str, object]:
    return {"type": kind, "id": f"{kind}-{start}", "startTime": f"2026-01-01T00:00:{start:02d}Z", **fields}


def test_langfuse_tools_are_calls_with_the_words_of_the_generations_around_them(write: Write) -> None:
    trace = {
        "id": "t1",
        "name": "agent.f9f77d1a-437f-4ba6-890e-b592a50cbd21",
        "scores": [{"name": "reward", "value": 1}],
    }
    question = [{"role": "user", "parts": [{"type": "text", "content": "Weather in Tokyo?"}]}]
    use = {
        "content": [{"type": "text", "text": "Looking"}, {"type": "tool_use", "id": "x", "name": "w", "input": {}}]
    }
    observations = [
        observed(
            "TOOL", 3, name="execute_tool w", input='{"city": "Oslo"}', level="ERROR", statusMessage="no such city"
        ),
        observed("GENERATION", 1, input=question, output=use | {"role": "assistant"}),
        observed("TOOL", 2, name="w", input='{"city": "Tokyo"}', output='{"sky": "clear"}'),
        observed("GENERATION", 4, input=question, output='{"role": "assistant", "content": "Clear."}'),
    ]
    path = write("t.json", {"trace": trace, "observations": observations})
    assert detect(path) == "langfuse"
    session = read(path).only
    assert (session.key, session.project, session.outcome.status) == ("t1", "agent", OutcomeStatus.SUCCESS)
    said = [(step.speaker.value, step.text) for step in session.steps if isinstance(step, Message)]
    assert said == [("user", "Weather in Tokyo?"), ("assistant", "Looking"), ("assistant", "Clear.")]
    found = [(asked.arguments, asked.turn, told and (told.value, told.status)) for asked, told in session.exchanges()]
    assert found == [
        ({"city": "Tokyo"}, 0, ({"sky": "clear"}, ResultStatus.OK)),
        ({"city": "Oslo"}, 0, ("no such city", ResultStatus.ERROR)),
    ]


@pytest.mark.parametrize(
    "calls",
    [
        {"tool_calls": [{"id": "c", "function": {"name": "search", "arguments": '{"q": 1}'}}]},
        {"tool_calls": [{"id": "c", "name": "search", "args": {"q": 1}}]},
        {"additional_kwargs": {"tool_calls": [{"id": "c", "function": {"name": "search", "arguments": '{"q": 1}'}}]}},
        {"parts": [{"type": "tool_call", "id": "c", "name": "search", "arguments": {"q": 1}}]},
    ],
)
def test_without_observed_tools_the_longest_generation_holds_the_conversation(
    write: Write, calls: dict[str, object]
) -> None:
    asked = {"role": "assistant", "content": "", **calls}
    offered = {"role": "tool", "content": {"type": "function", "function": {"name": "search"}}}
    messages = [
        {"role": "human", "content": "Find it"},
        asked,
        {"role": "tool", "tool_call_id": "c", "content": "here"},
    ]
    observations = [
        observed("GENERATION", 1, input=messages[:1], output=None),
        observed("GENERATION", 2, input={"messages": [*messages, offered]}, output="Found"),
    ]
    session = read(write("t.json", {"trace": {"id": "t"}, "observations": observations})).only
    [(call, told)] = session.exchanges()
    assert (call.tool, call.arguments, told and told.value) == ("search", {"q": 1}, "here")
    said = [(step.speaker.value, step.text) for step in session.steps if isinstance(step, Message)]
    assert said == [("user", "Find it"), ("assistant", "Found")]


def span(number: int, attributes: dict[str, object], **fields: object) -> dict[str, object]:
    context = {"traceId": "t1", "spanId": f"s{number}"}
    return {"spanContext": context, "startTime": [1785612800 + number, 0], "attributes": attributes, **fields}


NEW: dict[str, object] = {
    "gen_ai.agent.name": "desk",
    "gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "Weather in Tokyo?"}]}]',
    "gen_ai.output.messages": '[{"role": "assistant", "parts": [{"type": "text", "content": "Looking"}]}]',
}
OLD: dict[str, object] = {
    "service.name": "desk",
    "gen_ai.prompt.0.role": "user",
    "gen_ai.prompt.0.content": "Weather in Tokyo?",
    "gen_ai.completion.0.role": "assistant",
    "gen_ai.completion.0.content": "Looking",
}
OPENINFERENCE: dict[str, object] = {
    "service.name": "desk",
    "llm.input_messages.0.message.role": "user",
    "llm.input_messages.0.message.content": "Weather in Tokyo?",
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.content": "Looking",
}
VERCEL: dict[str, object] = {
    "ai.telemetry.functionId": "desk",
    "ai.prompt.messages": '[{"role": "user", "content": [{"type": "text", "text": "Weather in Tokyo?"}]}]',
    "ai.response.text": "Looking",
}
TOOLS: list[dict[str, object]] = [
    {"gen_ai.tool.name": "w", "gen_ai.tool.call.arguments": '{"city": "Tokyo"}', "gen_ai.tool.call.result": "clear"},
    {"ai.toolCall.name": "w", "ai.toolCall.args": '{"city": "Tokyo"}', "ai.toolCall.result": '"clear"'},
    {"tool.name": "w", "input.value": '{"city": "Tokyo"}', "output.value": "clear"},
]


def as_otlp(one: dict[str, object]) -> dict[str, object]:
    """A span of the JavaScript SDK, as OTLP has it."""
    [seconds, _] = cast("list[int]", one["startTime"])
    attributes = cast("dict[str, object]", one["attributes"])
    return {
        **cast("dict[str, object]", one["spanContext"]),
        "startTimeUnixNano": f"{seconds}000000000",
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
        "status": one.get("status", {}),
    }


@pytest.mark.parametrize("tool", TOOLS, ids=["genai", "vercel", "openinference"])
@pytest.mark.parametrize("model", [NEW, OLD, OPENINFERENCE, VERCEL], ids=["new", "old", "openinference", "vercel"])
@pytest.mark.parametrize("otlp", [False, True], ids=["sdk", "otlp"])
def test_spans_of_one_trace_are_one_session_whatever_their_attributes_are_called(
    write: Write, model: dict[str, object], tool: dict[str, object], otlp: bool
) -> None:
    failed = {key: value for key, value in tool.items() if not key.endswith((".result", "output.value"))}
    spans = [
        span(3, failed, status={"code": 2, "message": "timed out"}),
        span(1, model),
        span(2, tool),
        span(4, {"http.method": "GET"}),
    ]
    content: object = {"resourceSpans": [{"scopeSpans": [{"spans": [as_otlp(one) for one in spans]}]}]}
    path = write("spans.json", content if otlp else spans)
    assert detect(path) == "otel"
    session = read(path).only
    assert (session.key, session.project) == ("t1", "desk")
    said = [(step.speaker.value, step.text) for step in session.steps if isinstance(step, Message)]
    assert said == [("user", "Weather in Tokyo?"), ("assistant", "Looking")]
    found = [(asked.tool, asked.arguments, told and told.value) for asked, told in session.exchanges()]
    assert found == [("w", {"city": "Tokyo"}, "clear"), ("w", {"city": "Tokyo"}, "timed out")]
    assert [told.status for _, told in session.exchanges() if told] == [ResultStatus.OK, ResultStatus.ERROR]


def test_calls_inside_of_openinference_messages_are_found_without_tool_spans(write: Write) -> None:
    call = "llm.input_messages.1.message.tool_calls.0.tool_call"
    attributes: dict[str, object] = {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "Find it",
        "llm.input_messages.1.message.role": "assistant",
        f"{call}.id": "c1",
        f"{call}.function.name": "search",
        f"{call}.function.arguments": '{"q": 1}',
        "llm.input_messages.2.message.role": "tool",
        "llm.input_messages.2.message.tool_call_id": "c1",
        "llm.input_messages.2.message.content": "here",
    }
    [(asked, told)] = read(write("spans.json", [span(1, attributes)])).only.exchanges()
    assert (asked.tool, asked.arguments, told and told.value) == ("search", {"q": 1}, "here")


def test_traces_of_many_frameworks_are_read_from_langfuse() -> None:
    reading = read(data_folder("otel-langfuse-framework-traces") / "framework_traces.tar.gz")
    assert len(reading.sessions) == 20
    called = [asked.tool for session in reading.sessions for asked, _ in session.exchanges()]
    assert len(called) == 13  # the eleven observed tools, and one in the messages of each LangGraph
    assert {"get_weather", "getWeather", "Web-Search", "get_dad_joke_suggestion", "say_hello"} <= set(called)
