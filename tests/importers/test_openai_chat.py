from __future__ import annotations

import gzip
import json

import pytest

from instar.engine.importers import detect
from instar.engine.session import Message, Origin, OutcomeStatus, ResultStatus, Speaker, ToolCall, ToolResult

from .conftest import Write, answer, as_lines, assistant, call, chat, read, user

FIELDS = {
    "task": "t7",
    "project": "desk",
    "outcome": {"reward": 1.0},
    "tools": [
        {
            "type": "function",
            "function": {"name": "get_order", "description": "Look up", "parameters": {"type": "object"}},
        },
        {"name": "find", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    ],
}


def test_a_session_keeps_its_messages_calls_results_task_project_tools_and_outcome(write: Write) -> None:
    session = read(write("s.json", chat("k1", **FIELDS))).only
    assert (session.key, session.format, session.project, session.task) == ("k1", "openai-chat", "desk", "t7")
    assert session.outcome.status is OutcomeStatus.SUCCESS
    assert (session.outcome.basis, session.outcome.reward) == ("reward", 1.0)
    assert [type(step) for step in session.steps] == [Message, ToolCall, ToolResult, Message]
    assert [step.index for step in session.steps] == [0, 1, 2, 3]
    _, asked, told, said = session.steps
    assert isinstance(asked, ToolCall) and asked.arguments == {"order_id": "#W1"} and asked.turn == 0
    assert isinstance(told, ToolResult) and told.value == {"order_id": "#W1", "status": "sent"}
    assert told.call_id == asked.call_id and told.tool == "get_order" and told.status is ResultStatus.OK
    assert isinstance(said, Message) and said.speaker is Speaker.ASSISTANT
    assert [(tool.name, tool.effect) for tool in session.tools] == [("get_order", ""), ("find", "read")]
    assert session.source == "s.json"


@pytest.mark.parametrize(
    ("layout", "positions"),
    [
        ("lines", ["line 1", "line 2"]),
        ("one line", ["entry 1", "entry 2"]),
        ("indented array", ["entry 1", "entry 2"]),
        ("indented documents", ["document 1", "document 2"]),
        ("array in gzip", ["entry 1", "entry 2"]),
    ],
)
def test_every_layout_holds_the_same_sessions(write: Write, layout: str, positions: list[str]) -> None:
    records = [chat("k1"), chat("k2")]
    content: object = {
        "lines": as_lines(records),
        "one line": json.dumps(records),
        "indented array": json.dumps(records, indent=2),
        "indented documents": "\n".join(json.dumps(record, indent=2) for record in records),
        "array in gzip": gzip.compress(json.dumps(records).encode()),
    }[layout]
    path = write("sessions.anything", content)
    reading = read(path)
    assert [session.key for session in reading.sessions] == ["k1", "k2"]
    assert [one.position for one in reading.imported] == positions
    assert reading.skipped == []
    assert detect(path) == "openai-chat"


def test_a_bare_array_of_messages_is_one_session_and_an_array_of_those_is_many(write: Write) -> None:
    messages = chat()["messages"]
    assert len(read(write("one.json", messages)).only.steps) == 4
    assert len(read(write("many.json", [messages, messages])).sessions) == 2
    assert len(read(write("many.jsonl", as_lines([messages, messages]))).sessions) == 2


def test_an_array_of_messages_is_one_session_however_long_its_first_message_is(write: Write) -> None:
    messages = [{"role": "system", "content": "Be kind. " * 20_000}, user("Where is my order?")]
    assert len(read(write("compact.json", messages)).only.steps) == 2
    assert len(read(write("indented.json", json.dumps(messages, indent=2))).only.steps) == 2


def test_a_call_is_paired_with_the_next_result_of_its_repeated_id(write: Write) -> None:
    session = read(
        write(
            "s.json",
            chat(
                "k",
                user("go"),
                assistant(call("x", "first", "{}")),
                answer("x", "one"),
                assistant(call("x", "second", "{}")),
                answer("x", "two"),
                assistant(call("x", "never_answered", "{}")),
                assistant(call("x", "third", "{}")),
                answer("x", "three"),
            ),
        )
    ).only
    pairs = [(asked.tool, told.value if told else None) for asked, told in session.exchanges()]
    assert pairs == [("first", "one"), ("second", "two"), ("never_answered", None), ("third", "three")]
    ids = [step.call_id for step in session.steps if isinstance(step, ToolCall)]
    assert len(set(ids)) == len(ids) and ids[0] == "x"


def test_parallel_calls_share_a_turn_and_may_be_answered_out_of_order(write: Write) -> None:
    session = read(
        write(
            "s.json",
            chat(
                "k",
                user("go"),
                assistant(call("a", "get", {"id": 1}), call("b", "get", {"id": 2})),
                answer("b", "two"),
                answer("a", "one"),
                assistant(call("c", "get", {"id": 3})),
            ),
        )
    ).only
    found = [(asked.arguments["id"], asked.turn, told and told.value) for asked, told in session.exchanges()]
    assert found == [(1, 0, "one"), (2, 0, "two"), (3, 1, None)]


def test_legacy_function_calls_are_paired_by_name(write: Write) -> None:
    messages = [
        user("go"),
        {"role": "assistant", "content": None, "function_call": {"name": "get", "arguments": '{"id": 1}'}},
        {"role": "function", "name": "get", "content": '{"ok": true}'},
    ]
    session = read(write("s.json", {"messages": messages})).only
    [(asked, told)] = session.exchanges()
    assert asked.arguments == {"id": 1} and told is not None and told.value == {"ok": True}


def test_arguments_that_are_no_object_are_kept_as_they_were_written(write: Write) -> None:
    calls = [call("a", "get", '{"id": 1'), call("b", "get", "[1]"), call("c", "get", ""), call("d", "get", None)]
    session = read(write("s.json", chat("k", user("go"), assistant(*calls)))).only
    arguments = [asked.arguments for asked, _ in session.exchanges()]
    assert arguments == [{"_unparsed": '{"id": 1'}, {"_unparsed": "[1]"}, {}, {}]


@pytest.mark.parametrize("text", ["6086499569", "007", "true", "null", "sofia_li_9219", "1.50"])
def test_a_bare_scalar_stays_the_text_that_it_was(write: Write, text: str) -> None:
    session = read(write("s.json", chat("k", user("go"), assistant(call("a", "get", "{}")), answer("a", text)))).only
    [(_, told)] = session.exchanges()
    assert told is not None and told.value == text


def test_a_result_without_a_call_is_reported_and_left_out(write: Write) -> None:
    reading = read(write("s.json", chat("k", user("go"), answer("gone", "x"), assistant(text="hm"))))
    assert len(reading.only.steps) == 2
    assert reading.reasons == ["results that answer no call of their session: 1"]


def test_calls_on_a_message_of_the_user_are_not_the_agents_calls(write: Write) -> None:
    device = user("I toggled it") | {"tool_calls": [call("d", "toggle_data", "{}")]}
    session = read(write("s.json", chat("k", device, answer("d", "Mobile data is ON"), assistant(text="ok")))).only
    assert list(session.exchanges()) == []
    said = [(step.speaker.value, step.text) for step in session.steps if isinstance(step, Message)]
    assert said == [("user", "I toggled it"), ("user", "Mobile data is ON"), ("assistant", "ok")]


def test_a_message_of_unknown_role_costs_only_itself_and_is_reported(write: Write) -> None:
    reading = read(write("s.json", chat("k", user("go"), {"role": "oracle", "content": "?"}, assistant(text="ok"))))
    assert len(reading.only.steps) == 2
    assert reading.reasons == ["messages without a known role: 1"]


def test_without_an_id_the_key_follows_the_content_wherever_it_lies(write: Write) -> None:
    record = {"messages": chat()["messages"]}
    first = read(write("a/one.json", record)).only
    second = read(write("b/two.jsonl", as_lines([record]))).only
    other = read(write("c.json", {"messages": [user("Something else")]})).only
    assert first.key == second.key != other.key
    assert first.page_id == second.page_id


def test_without_a_task_the_same_request_is_the_same_task(write: Write) -> None:
    records = [
        chat("1", user("Cancel  my order")),
        chat("2", user("cancel my ORDER")),
        chat("3", user("Track my order")),
    ]
    tasks = [session.task for session in read(write("s.jsonl", as_lines(records))).sessions]
    assert tasks[0] == tasks[1] != tasks[2]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"reward": 1}, OutcomeStatus.SUCCESS),
        ({"reward": 0.0}, OutcomeStatus.FAILURE),
        ({"reward": 0.5}, OutcomeStatus.UNKNOWN),
        ({"outcome": {"success": False}}, OutcomeStatus.FAILURE),
        ({"outcome": {"success": True, "reward": 0.2}}, OutcomeStatus.SUCCESS),
        ({"reward": True}, OutcomeStatus.UNKNOWN),
        ({}, OutcomeStatus.UNKNOWN),
    ],
)
def test_the_outcome_is_what_the_recording_states(write: Write, fields: dict[str, object], status: str) -> None:
    assert read(write("s.json", chat("k", **fields))).only.outcome.status is status


def test_parts_of_a_message_are_joined_and_those_without_text_are_named(write: Write) -> None:
    parts = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:..."}}]
    session = read(write("s.json", chat("k", {"role": "user", "content": parts}))).only
    assert [step.text for step in session.steps if isinstance(step, Message)] == ["look\n[image_url]"]


def test_an_origin_that_is_stated_is_kept(write: Write) -> None:
    assert read(write("s.json", chat("k", origin="headless"))).only.origin is Origin.HEADLESS
    assert read(write("t.json", chat("k"))).only.origin is Origin.INTERACTIVE


def test_a_result_that_states_its_error_flag_is_believed(write: Write) -> None:
    calls = [call("a", "get", "{}"), call("b", "get", "{}")]
    failed = answer("a", "no such row") | {"is_error": True}
    fine = answer("b", "Error: is the title of this page") | {"is_error": False}
    session = read(write("s.json", chat("k", user("go"), assistant(*calls), failed, fine))).only
    statuses = [(told.status, told.error) for _, told in session.exchanges() if told]
    assert statuses == [(ResultStatus.ERROR, "no such row"), (ResultStatus.OK, None)]
