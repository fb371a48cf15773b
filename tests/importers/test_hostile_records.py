"""No record, however broken, makes a reader raise, and what it yields always keeps the rules of a session."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from instar.engine.importers import FORMATS, detect
from instar.engine.session import ResultStatus, Session, ToolCall, ToolResult

from .conftest import answer, as_lines, assistant, call, chat, read, user

Record = dict[str, object]
TEXT = [{"type": "text", "text": "hello"}]
USE = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls", "n": [1, {"x": None}]}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": TEXT, "is_error": True}
CLAUDE = {"sessionId": "s", "uuid": "u", "isSidechain": False, "cwd": "/w/p", "timestamp": "2026-01-01T00:00:00Z"}
FUNCTION = {"functionCall": {"id": "c", "name": "f", "args": {"x": 1}}}
RESPONSE = {"functionResponse": {"id": "c", "name": "f", "response": {"output": "y"}}}
MESSAGES = [user("go"), assistant(call("a", "f", '{"x": 1}')), answer("a", {"y": [1]})]

SAMPLES: dict[str, list[Record]] = {
    "antigravity": [
        {
            "step_index": 0,
            "source": "USER_EXPLICIT",
            "type": "USER_INPUT",
            "content": "<USER_REQUEST>go</USER_REQUEST>",
        },
        {
            "step_index": 1,
            "source": "MODEL",
            "type": "PLANNER_RESPONSE",
            "tool_calls": [{"name": "f", "args": {"path": '"/tmp"'}}],
        },
        {"step_index": 2, "source": "MODEL", "type": "VIEW_FILE", "status": "DONE", "content": "x"},
        {"step_index": 3, "source": "SYSTEM", "type": "SYSTEM_MESSAGE", "content": "y"},
    ],
    "atif": [
        {
            "schema_version": "ATIF-v1.6",
            "session_id": "s",
            "agent": {"name": "a", "version": "1", "tool_definitions": [{"function": {"name": "f"}}]},
            "steps": [
                {"step_id": 1, "source": "user", "message": "go", "timestamp": "2026-01-01T00:00:00Z"},
                {
                    "step_id": 2,
                    "source": "agent",
                    "message": TEXT,
                    "tool_calls": [{"tool_call_id": "c", "function_name": "f", "arguments": {"x": 1}}],
                    "observation": {
                        "results": [{"source_call_id": "c", "content": "y", "extra": {"is_error": True}}]
                    },
                },
            ],
            "subagent_trajectories": [{"trajectory_id": "t", "steps": [{"source": "user", "message": "inner"}]}],
        }
    ],
    "claude-code": [
        {"type": "user", "message": {"role": "user", "content": "go"}, **CLAUDE},
        {"type": "assistant", "message": {"id": "m", "content": [*TEXT, USE]}, **CLAUDE, "uuid": "v"},
        {
            "type": "user",
            "message": {"content": [RESULT]},
            "toolUseResult": {"is_error": True},
            **CLAUDE,
            "uuid": "w",
        },
        {"type": "attachment", "attachment": {"type": "queued_command", "prompt": TEXT}, **CLAUDE, "uuid": "x"},
        {"type": "user", "message": {"content": "side"}, **CLAUDE, "uuid": "y", "isSidechain": True, "agentId": "a"},
        {"type": "tool_use", "sessionId": "s", "name": "f", "input": {}, "uuid": "z"},
        {"type": "tool_result", "sessionId": "s", "name": "f", "output": "o", "uuid": "zz"},
    ],
    "codex": [
        {"type": "session_meta", "payload": {"id": "s", "cwd": "/w/p", "source": {"subagent": "x"}}},
        {"type": "response_item", "payload": {"type": "message", "role": "user", "content": TEXT}},
        {
            "type": "response_item",
            "payload": {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
        },
        {
            "type": "response_item",
            "payload": {"type": "function_call_output", "call_id": "1", "output": "Exit code: 1\n"},
        },
        {"type": "response_item", "payload": {"type": "local_shell_call", "action": {"command": ["ls"]}}},
        {"type": "response_item", "payload": {"type": "tool_result", "output": TEXT}},
    ],
    "copilot": [
        {"type": "session.start", "data": {"sessionId": "s", "context": {"cwd": "/w/p"}}},
        {"type": "user.message", "data": {"content": "go"}},
        {
            "type": "assistant.message",
            "data": {
                "content": "",
                "messageId": "m",
                "toolRequests": [{"toolCallId": "1", "name": "f", "arguments": {}}],
            },
        },
        {
            "type": "tool.execution_complete",
            "data": {"toolCallId": "1", "success": False, "result": {"content": "x"}},
        },
    ],
    "cursor": [
        {"role": "user", "message": {"content": TEXT}},
        {"role": "assistant", "message": {"content": [*TEXT, USE]}},
        {"role": "user", "message": {"content": [RESULT, {"type": "image"}, {"type": "odd", "text": "t"}]}},
    ],
    "droid": [
        {"type": "session_start", "id": "s", "cwd": "/w/p"},
        {"type": "message", "id": "1", "message": {"role": "user", "content": TEXT}},
        {"type": "tool_call", "session_id": "s", "toolCallId": "c", "toolName": "f", "parameters": {"x": 1}},
        {"type": "tool_result", "session_id": "s", "toolCallId": "c", "value": {"exitCode": 1}},
        {"type": "completion", "session_id": "s", "finalText": "done"},
    ],
    "gemini": [
        {"sessionId": "s", "projectHash": "0123", "kind": "main"},
        {"id": "1", "type": "user", "content": [{"text": "go"}]},
        {
            "id": "2",
            "type": "gemini",
            "content": "",
            "toolCalls": [{"id": "c", "name": "f", "args": {"x": 1}, "status": "error", "result": [RESPONSE]}],
        },
        {"$set": {"lastUpdated": "x"}},
    ],
    "general-agentbench": [
        {"benchmark": "b", "domain": "d", "task_id": 1, "trace": {"messages": MESSAGES, "start_time": 1785612812}}
    ],
    "grok": [
        {"type": "user", "content": TEXT, "prompt_index": 0},
        {
            "type": "assistant",
            "content": "x",
            "tool_calls": [{"id": "1", "name": "f", "arguments": "{}"}],
            "model_id": "grok",
        },
        {"type": "tool_result", "tool_call_id": "1", "content": "y"},
        {"type": "backend_tool_call", "kind": {"tool_type": "search", "id": "2", "action": {"q": "x"}}},
    ],
    "inspect-ai": [
        {
            "version": 2,
            "eval": {"task": "t", "run_id": "r", "created": "2026-01-01T00:00:00Z"},
            "plan": {},
            "samples": [
                {
                    "id": 1,
                    "epoch": 1,
                    "target": "",
                    "messages": [
                        user("attachment://a"),
                        {
                            "role": "assistant",
                            "content": TEXT,
                            "tool_calls": [{"id": "c", "function": "f", "arguments": {}}],
                        },
                        {
                            "role": "tool",
                            "tool_call_id": "c",
                            "function": "f",
                            "content": "",
                            "error": {"message": "m"},
                        },
                    ],
                    "scores": {"match": {"value": "C"}},
                    "attachments": {"a": "go"},
                }
            ],
        }
    ],
    "kimi": [
        {"type": "metadata", "protocol_version": "1", "created_at": 1785612812},
        {"type": "config.update", "cwd": "/w/p"},
        {"type": "context.append_message", "message": {"role": "user", "content": TEXT, "origin": {"kind": "user"}}},
        {
            "type": "context.append_loop_event",
            "event": {"type": "tool.call", "toolCallId": "c", "name": "f", "args": {"x": 1}, "stepUuid": "s"},
        },
        {
            "type": "context.append_loop_event",
            "event": {"type": "tool.result", "toolCallId": "c", "result": {"output": TEXT}},
        },
    ],
    "langfuse": [
        {
            "trace": {"id": "t", "name": "n", "timestamp": "2026-01-01T00:00:00Z", "scores": [{"name": "reward"}]},
            "observations": [
                {
                    "type": "GENERATION",
                    "id": "g",
                    "startTime": "1",
                    "input": [user("go")],
                    "output": '{"content": "x"}',
                },
                {"type": "TOOL", "id": "o", "name": "f", "startTime": "2", "input": '{"x": 1}', "output": '"y"'},
                {"type": "SPAN", "id": "s", "startTime": "3"},
            ],
        },
        {
            "trace": {"id": "u", "input": "hello", "output": "there"},
            "observations": [{"type": "GENERATION", "input": {"messages": MESSAGES}, "output": {"choices": [{}]}}],
        },
    ],
    "openai-chat": [
        dict(chat("k", *MESSAGES, outcome={"reward": 1}, tools=[{"name": "f"}], started_at="2026-01-01"))
    ],
    "openai-tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "opencode": [
        {"id": "s", "projectID": "p", "directory": "/w/p", "time": {"created": 1730000000000}},
        {"id": "m", "sessionID": "s", "role": "user", "time": {"created": 1730000001000}},
        {"id": "1", "messageID": "m", "type": "text", "text": "go"},
        {
            "id": "2",
            "messageID": "m",
            "type": "tool",
            "callID": "c",
            "tool": "f",
            "state": {"input": {}, "output": "x"},
        },
    ],
    "otel": [
        {
            "resourceSpans": [
                {
                    "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "p"}}]},
                    "scopeSpans": [
                        {
                            "spans": [
                                {
                                    "traceId": "t",
                                    "spanId": "1",
                                    "startTimeUnixNano": "1785612812000000000",
                                    "attributes": [
                                        {
                                            "key": "llm.input_messages.0.message.role",
                                            "value": {"stringValue": "user"},
                                        },
                                        {
                                            "key": "llm.input_messages.0.message.content",
                                            "value": {"stringValue": "go"},
                                        },
                                        {"key": "gen_ai.output.messages", "value": {"arrayValue": {"values": [{}]}}},
                                    ],
                                },
                                {
                                    "traceId": "t",
                                    "spanId": "2",
                                    "status": {"code": 2, "message": "no"},
                                    "attributes": [
                                        {"key": "gen_ai.tool.name", "value": {"stringValue": "f"}},
                                        {"key": "gen_ai.tool.call.arguments", "value": {"stringValue": "{}"}},
                                    ],
                                },
                            ]
                        }
                    ],
                }
            ]
        },
        {
            "name": "x",
            "spanContext": {"traceId": "u", "spanId": "3"},
            "startTime": [1785612812, 5],
            "attributes": {"ai.prompt.messages": [user("go")], "ai.response.text": "x"},
        },
    ],
    "pi": [
        {"type": "session", "id": "s", "cwd": "/w/p"},
        {"type": "message", "id": "1", "message": {"role": "user", "content": TEXT}},
        {
            "type": "message",
            "id": "2",
            "message": {
                "role": "assistant",
                "content": [{"type": "toolCall", "id": "c", "name": "f", "arguments": {}}],
            },
        },
        {"type": "message", "id": "3", "message": {"role": "toolResult", "toolCallId": "c", "content": TEXT}},
    ],
    "qwen": [
        {"uuid": "1", "sessionId": "s", "type": "user", "message": {"parts": [{"text": "go"}]}},
        {"uuid": "2", "sessionId": "s", "type": "assistant", "message": {"parts": [FUNCTION]}},
        {
            "uuid": "3",
            "sessionId": "s",
            "type": "tool_result",
            "message": {"parts": [RESPONSE]},
            "toolCallResult": {"status": "success"},
        },
    ],
    "swe-agent": [
        {
            "history": [
                {"agent": "main", "role": "user", "content": "go"},
                {"agent": "main", "role": "assistant", "content": "x", "thought": "x", "action": "ls"},
                {"agent": "main", "role": "user", "content": "a.py"},
                {"agent": "main", "role": "assistant", "content": "", "tool_calls": [call("c", "f", "{}")]},
                {"agent": "main", "role": "tool", "content": "y", "tool_call_ids": ["c"]},
            ]
        }
    ],
    "tau-bench": [{"task_id": 1, "trial": 0, "reward": 1.0, "traj": MESSAGES, "info": {}}],
}

JUNK: list[object] = [None, True, 0, -1, 1e308, 10**30, "", "x", "\0", "\ud800", [], {}, [[]], [{}], ["a", 3, None]]
JUNK += [{"type": 3}, {"text": {"value": 3}}, {"a": None}, '{"a":', "Error: x", "2026-99-99"]


def broken(value: object, rng: random.Random, chance: float) -> object:
    """The value with some of what is in it replaced, left out or repeated."""
    if rng.random() < chance:
        return rng.choice(JUNK)
    if isinstance(value, dict):
        return {key: broken(item, rng, chance) for key, item in value.items() if rng.random() > chance / 2}
    if isinstance(value, list):
        items = [broken(item, rng, chance) for item in value]
        return items * 2 if rng.random() < chance else items
    return value


def check(session: Session) -> None:
    assert all(isinstance(text, str) for text in (session.key, session.task, session.project, session.source))
    assert session.key and session.task and session.steps
    assert [step.index for step in session.steps] == list(range(len(session.steps)))
    calls = [step.call_id for step in session.steps if isinstance(step, ToolCall)]
    results = [step for step in session.steps if isinstance(step, ToolResult)]
    assert len(set(calls)) == len(calls)
    assert {result.call_id for result in results} <= set(calls)
    assert len({result.call_id for result in results}) == len(results)
    assert all((result.error is None) == (result.status is ResultStatus.OK) for result in results)
    everything = [getattr(step, "text", None) or getattr(step, "arguments", None) for step in session.steps]
    stored = json.dumps([everything, [result.value for result in results]], allow_nan=False, ensure_ascii=False)
    stored.encode("utf-8")
    assert "\0" not in stored and "\\u0000" not in stored


def test_there_is_a_sample_of_every_format_and_it_is_recognised(tmp_path: Path) -> None:
    assert set(SAMPLES) == set(FORMATS)
    for name, records in SAMPLES.items():
        path = tmp_path / name
        path.write_text(as_lines(records))
        assert detect(path) == name
        reading = read(path)
        assert bool(reading.sessions) == (name != "openai-tools"), (name, reading.skipped)
        assert {session.format for session in reading.sessions} <= {name}
        for session in reading.sessions:
            check(session)


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("write", [as_lines, json.dumps], ids=["lines", "array"])
def test_broken_records_are_read_as_far_as_they_go(
    tmp_path: Path, name: str, write: Callable[[list[Record]], str]
) -> None:
    rng = random.Random(name)  # noqa: S311
    path = tmp_path / "s"
    for round_number in range(30):
        chance = (0.01, 0.05, 0.15)[round_number % 3]
        records = [
            record for record in (broken(one, rng, chance) for one in SAMPLES[name]) if isinstance(record, dict)
        ]
        path.write_text(write(records))
        reading = read(path)
        assert reading.sessions or reading.skipped or name == "openai-tools" or not records, records
        for session in reading.sessions:
            check(session)
