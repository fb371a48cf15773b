"""The logs of coding agents: what each format says in its own words, read as one and the same thing."""

from __future__ import annotations

from pathlib import Path

import pytest

from instar.engine.importers import detect
from instar.engine.session import Message, Origin, ResultStatus, Session, Speaker

from .conftest import Write, as_lines, read
from .test_hostile_records import SAMPLES

OK, ERROR, REFUSED = ResultStatus.OK, ResultStatus.ERROR, ResultStatus.REFUSED


def results(session: Session) -> list[tuple[str, object, object]]:
    return [(asked.tool, told and told.value, told and told.status) for asked, told in session.exchanges()]


def said(session: Session) -> list[tuple[str, str]]:
    return [(step.speaker.value, step.text) for step in session.steps if isinstance(step, Message)]


def turns(session: Session) -> list[int]:
    return [asked.turn for asked, _ in session.exchanges()]


def item(**payload: object) -> dict[str, object]:
    return {"timestamp": "2026-01-01T00:00:01Z", "type": "response_item", "payload": payload}


def codex_message(role: str, text: str) -> dict[str, object]:
    return item(type="message", role=role, content=[{"type": "input_text", "text": text}])


def codex_call(call_id: str, command: str) -> dict[str, object]:
    return item(type="function_call", call_id=call_id, name="shell", arguments=f'{{"command": "{command}"}}')


def codex_output(call_id: str, output: object) -> dict[str, object]:
    return item(type="function_call_output", call_id=call_id, output=output)


def meta(**fields: object) -> dict[str, object]:
    payload = {"id": "s1", "cwd": "/home/me/shop", "timestamp": "2026-01-01T00:00:00Z", "source": "cli"} | fields
    return {"timestamp": "2026-01-01T00:00:00Z", "type": "session_meta", "payload": payload}


def test_codex_results_carry_the_exit_code_that_the_harness_writes(write: Write) -> None:
    path = write(
        "rollout.jsonl",
        as_lines(
            [
                meta(),
                codex_message("user", "<environment_context>…</environment_context>"),
                codex_message("user", "Run the tests"),
                codex_call("1", "make"),
                codex_call("2", "ls"),
                codex_output("1", '{"output": "2 failed", "metadata": {"exit_code": 2}}'),
                codex_output("2", '{"output": "a.py", "metadata": {"exit_code": 0}}'),
                codex_call("3", "pytest"),
                codex_output("3", "Exit code: 1\nWall time: 2 s\nOutput:\nno tests ran"),
                codex_call("4", "cat errors.log"),
                codex_output("4", "Exit code: 0\nWall time: 0 s\nOutput:\nError: from last week"),
                codex_call("7", "tail ci.log"),
                codex_output("7", "step 1\nstep 2\nExit code: 1\nfrom last week"),
                codex_call("8", "long job"),
                codex_output("8", "Chunk ID: ab12\nWall time: 3 s\nProcess exited with code 3\nOutput:\n"),
                codex_call("5", "rm x"),
                codex_output("5", "exec command rejected by user"),
                codex_call("6", "view"),
                codex_output("6", [{"type": "input_text", "text": "plain"}]),
                {"type": "event_msg", "payload": {"type": "agent_message", "message": "repeated for the screen"}},
                item(type="reasoning", summary=[]),
                codex_message("assistant", "Done"),
                item(type="wish", text="?"),
            ]
        ),
    )
    assert detect(path) == "codex"
    reading = read(path)
    session = reading.only
    assert (session.key, session.project, session.origin) == ("s1", "shop", Origin.INTERACTIVE)
    assert [
        (value if number == 0 else None, status) for number, (_, value, status) in enumerate(results(session))
    ] == [
        ("2 failed", ERROR),
        (None, OK),
        (None, ERROR),
        (None, OK),
        (None, OK),
        (None, ERROR),
        (None, REFUSED),
        (None, OK),
    ]
    assert turns(session) == [0, 0, 1, 2, 3, 4, 5, 6]
    assert said(session) == [
        ("system", "<environment_context>…</environment_context>"),
        ("user", "Run the tests"),
        ("assistant", "Done"),
    ]
    assert reading.reasons == ["unknown record type 'response_item': the format has drifted (1 in this file)"]


@pytest.mark.parametrize(
    ("fields", "origin"),
    [
        ({"source": "exec"}, Origin.HEADLESS),
        ({"originator": "codex_exec"}, Origin.HEADLESS),
        ({"source": {"subagent": "review"}}, Origin.SUBAGENT),
        ({"thread_source": "subagent"}, Origin.SUBAGENT),
        ({"source": "vscode"}, Origin.INTERACTIVE),
    ],
)
def test_codex_says_who_started_a_session(write: Write, fields: dict[str, object], origin: Origin) -> None:
    lines = [meta(**fields), meta(id="parent", source="cli"), codex_message("user", "go")]
    session = read(write("rollout.jsonl", as_lines(lines))).only
    assert (session.key, session.origin) == ("s1", origin)


def test_pi_marks_its_failures_and_reads_abandoned_branches_in_order(write: Write) -> None:
    def entry(entry_id: str, **message: object) -> dict[str, object]:
        return {"type": "message", "id": entry_id, "parentId": "x", "message": message}

    def calls(*ids: str) -> list[dict[str, object]]:
        return [{"type": "toolCall", "id": one, "name": "bash", "arguments": {"command": one}} for one in ids]

    lines = [
        {"type": "session", "id": "s1", "cwd": "/w/shop", "timestamp": "2026-01-01T00:00:00Z"},
        entry("1", role="user", content=[{"type": "text", "text": "go"}]),
        entry("2", role="assistant", content=[{"type": "thinking", "thinking": "…"}, *calls("a", "b")]),
        entry("3", role="toolResult", toolCallId="b", toolName="bash", content="Error: quoted", isError=False),
        entry("4", role="toolResult", toolCallId="a", toolName="bash", content="boom", isError=True),
        entry("5", role="bashExecution", command="ls", output="a"),
        {"type": "compaction", "id": "6", "summary": "…"},
        {"type": "telepathy", "id": "7"},
    ]
    path = write("s.jsonl", as_lines(lines))
    assert detect(path) == "pi"
    reading = read(path)
    assert results(reading.only) == [("bash", "boom", ERROR), ("bash", "Error: quoted", OK)]
    assert turns(reading.only) == [0, 0]
    assert said(reading.only) == [("user", "go"), ("user", "! ls")]
    assert reading.only.project == "shop"
    assert reading.reasons == ["unknown record type 'telepathy': the format has drifted (1 in this file)"]


def gemini_call(name: str, status: str, response: dict[str, object]) -> dict[str, object]:
    body = {"functionResponse": {"id": name, "name": name, "response": response}}
    return {"id": name, "name": name, "args": {"x": 1}, "status": status, "result": [body]}


@pytest.mark.parametrize("layout", ["document", "lines"])
def test_gemini_sessions_are_the_same_as_a_document_and_as_lines(write: Write, layout: str) -> None:
    heading = {"sessionId": "s1", "projectHash": "0123456789abcdef", "startTime": "2026-01-01T00:00:00Z"}
    messages = [
        {"id": "1", "type": "user", "content": "go"},
        {
            "id": "2",
            "type": "gemini",
            "content": "",
            "thoughts": [{"description": "…"}],
            "toolCalls": [
                gemini_call("read", "success", {"output": "text"}),
                gemini_call("write", "error", {"error": "denied"}),
                gemini_call("ask", "cancelled", {"output": "no"}),
            ],
        },
        {"id": "3", "type": "gemini", "content": [{"text": "done"}]},
    ]
    whole = heading | {"messages": messages}
    content = whole if layout == "document" else as_lines([heading, *messages, {"$set": {"lastUpdated": "x"}}])
    path = write("session.json", content)
    assert detect(path) == "gemini"
    session = read(path).only
    assert (session.key, session.project) == ("s1", "0123456789ab")
    assert results(session) == [("read", "text", OK), ("write", "denied", ERROR), ("ask", "no", REFUSED)]
    assert turns(session) == [0, 0, 0]
    assert said(session) == [("user", "go"), ("assistant", "done")]


def test_qwen_tells_the_users_words_from_hooks_and_notifications(write: Write) -> None:
    def line(uuid: str, kind: str, *parts: dict[str, object], **fields: object) -> dict[str, object]:
        message = {"role": "user", "parts": list(parts)}
        return {"uuid": uuid, "sessionId": "s1", "type": kind, "cwd": "/w/shop", "message": message} | fields

    call = {"functionCall": {"id": "c", "name": "read_file", "args": {}}}
    answer = {"functionResponse": {"id": "c", "name": "read_file", "response": {"output": "no"}}}
    lines = [
        line("1", "user", {"text": "go"}, {"text": "<qwen:user-prompt-submit-context>\nhook"}),
        line("2", "assistant", {"text": "hm", "thought": True}, call),
        line("3", "tool_result", answer, toolCallResult={"status": "error"}),
        line("4", "user", {"text": "background task ended"}, subtype="notification"),
        line("5", "system", subtype="ui_telemetry", systemPayload={}),
    ]
    path = write("s.jsonl", as_lines(lines))
    assert detect(path) == "qwen"
    session = read(path).only
    assert said(session) == [
        ("user", "go"),
        ("system", "<qwen:user-prompt-submit-context>\nhook"),
        ("system", "background task ended"),
    ]
    assert results(session) == [("read_file", "no", ERROR)]


def test_copilot_calls_count_once_whether_requested_or_only_started(write: Write) -> None:
    def event(kind: str, **data: object) -> dict[str, object]:
        return {"type": kind, "id": kind, "timestamp": "2026-01-01T00:00:00Z", "data": data}

    request = {"toolCallId": "1", "name": "bash", "arguments": '{"command": "ls"}'}
    lines = [
        event("session.start", sessionId="s1", context={"cwd": "/w/shop"}),
        event("user.message", content="go"),
        event("assistant.message", messageId="m1", content="Looking", toolRequests=[request]),
        event("tool.execution_start", toolCallId="1", toolName="bash", arguments={"command": "ls"}, turnId="t"),
        event("tool.execution_complete", toolCallId="1", success=True, result={"content": "a"}),
        event("tool.execution_start", toolCallId="2", toolName="bash", arguments={}, turnId="t"),
        event("tool.execution_complete", toolCallId="2", success=False, error={"message": "denied"}),
        event("hook.start", hookType="x"),
        event("mood.change", to="blue"),
    ]
    path = write("events.jsonl", as_lines(lines))
    assert detect(path) == "copilot"
    reading = read(path)
    assert results(reading.only) == [("bash", "a", OK), ("bash", "denied", ERROR)]
    assert reading.reasons == ["unknown record type 'mood.change': the format has drifted (1 in this file)"]


def test_cursor_results_find_their_calls_though_only_they_have_ids(write: Write, tmp_path: Path) -> None:
    def line(role: str, *blocks: dict[str, object]) -> dict[str, object]:
        return {"role": role, "message": {"content": list(blocks)}}

    lines = [
        line("user", {"type": "text", "text": "go"}),
        line("assistant", {"type": "tool_use", "name": "Bash", "input": {"command": "ls"}}),
        line("user", {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "a"}]}),
        {"type": "turn_ended", "status": "success"},
    ]
    path = write("p/s.jsonl", as_lines(lines))
    write("p/subagents/child.jsonl", as_lines([line("user", {"type": "text", "text": "search"})]))
    assert detect(path) == "cursor"
    reading = read(tmp_path / "p")
    assert [session.origin for session in reading.sessions] == [Origin.INTERACTIVE, Origin.SUBAGENT]
    assert results(reading.sessions[0]) == [("Bash", "a", OK)]
    assert reading.skipped == []


def test_droid_sessions_are_kept_ones_or_headless_streams(write: Write) -> None:
    kept = [
        {"type": "session_start", "id": "s1", "title": "t", "cwd": "/w/shop"},
        {"type": "message", "id": "1", "message": {"role": "user", "content": [{"type": "text", "text": "go"}]}},
    ]
    streamed = [
        {"type": "system", "session_id": "s2", "cwd": "/w/shop"},
        {"type": "message", "session_id": "s2", "role": "user", "text": "go"},
        {"type": "tool_call", "session_id": "s2", "toolCallId": "c", "toolName": "Shell", "parameters": {"x": 1}},
        {"type": "tool_result", "session_id": "s2", "toolCallId": "c", "value": {"stdout": "", "exitCode": 3}},
        {"type": "completion", "session_id": "s2", "finalText": "Done"},
    ]
    first = read(write("kept.jsonl", as_lines(kept))).only
    second = read(write("stream.jsonl", as_lines(streamed))).only
    assert (first.format, first.key, first.origin) == ("droid", "s1", Origin.INTERACTIVE)
    assert (second.format, second.key, second.origin) == ("droid", "s2", Origin.HEADLESS)
    assert second.project == "shop"
    assert results(second) == [("Shell", {"stdout": "", "exitCode": 3}, ERROR)]
    assert said(second) == [("user", "go"), ("assistant", "Done")]


def test_kimi_sessions_are_read_from_their_wire_log(write: Write) -> None:
    def event(kind: str, **fields: object) -> dict[str, object]:
        body = {"type": kind, "stepUuid": "step", **fields}
        return {"type": "context.append_loop_event", "event": body, "time": 1785612812825}

    def message(text: str, origin: dict[str, object]) -> dict[str, object]:
        body = {"role": "user", "content": [{"type": "text", "text": text}], "origin": origin}
        return {"type": "context.append_message", "message": body}

    lines = [
        {"type": "metadata", "protocol_version": "1.4", "created_at": 1785612803281},
        {"type": "config.update", "cwd": "/w/shop"},
        message("go", {"kind": "user"}),
        message("reminder", {"kind": "system_trigger", "name": "hook"}),
        event("content.part", part={"type": "think", "think": "…"}),
        event("tool.call", toolCallId="a", name="Bash", args={"command": "ls"}),
        event("tool.call", toolCallId="b", name="Bash", args={"command": "pwd"}),
        event("tool.result", toolCallId="a", result={"output": "x", "isError": True}),
        event("tool.result", toolCallId="b", result={"output": "y"}),
        event("content.part", part={"type": "text", "text": "Done"}),
    ]
    path = write("wire.jsonl", as_lines(lines))
    assert detect(path) == "kimi"
    session = read(path).only
    assert (session.project, turns(session)) == ("shop", [0, 0])
    assert results(session) == [("Bash", "x", ERROR), ("Bash", "y", OK)]
    assert said(session) == [("user", "go"), ("system", "reminder"), ("assistant", "Done")]


def test_grok_histories_are_read_without_what_was_put_in_the_users_place(write: Write) -> None:
    lines = [
        {"type": "system", "content": "You are Grok"},
        {"type": "user", "content": [{"type": "text", "text": "<user_info>"}], "synthetic_reason": "environment"},
        {"type": "user", "content": [{"type": "text", "text": "go"}], "prompt_index": 0},
        {
            "type": "assistant",
            "content": "Reading",
            "tool_calls": [{"id": "1", "name": "read", "arguments": '{"x": 1}'}],
            "model_id": "grok",
        },
        {"type": "tool_result", "tool_call_id": "1", "content": "text"},
        {"type": "reasoning", "summary": []},
    ]
    path = write("chat_history.jsonl", as_lines(lines))
    assert detect(path) == "grok"
    session = read(path).only
    assert [text for speaker, text in said(session) if speaker == Speaker.USER] == ["go"]
    assert results(session) == [("read", "text", OK)]


def test_antigravity_results_are_given_to_the_open_calls_in_order(write: Write) -> None:
    def step(kind: str, source: str = "MODEL", **fields: object) -> dict[str, object]:
        return {"step_index": 0, "source": source, "type": kind, "status": "DONE", **fields}

    request = "<USER_REQUEST>\ngo\n</USER_REQUEST>\n<SETTINGS>"
    calls = [{"name": "list_dir", "args": {"path": '"/tmp"', "deep": True}}, {"name": "view", "args": {}}]
    lines = [
        step("USER_INPUT", "USER_EXPLICIT", content=request),
        step("CONVERSATION_HISTORY", "SYSTEM"),
        step("PLANNER_RESPONSE", tool_calls=calls),
        step("LIST_DIRECTORY", content="a.txt"),
        step("VIEW_FILE", content="boom") | {"status": "ERROR"},
        step("DREAM", "ELSEWHERE"),
    ]
    path = write("steps.jsonl", as_lines(lines))
    assert detect(path) == "antigravity"
    reading = read(path)
    assert results(reading.only) == [("list_dir", "a.txt", OK), ("view", "boom", ERROR)]
    assert [asked.arguments for asked, _ in reading.only.exchanges()] == [{"path": "/tmp", "deep": True}, {}]
    assert said(reading.only) == [("user", "go"), ("system", "<SETTINGS>")]
    assert reading.reasons == ["unknown record type 'DREAM': the format has drifted (1 in this file)"]


def test_opencode_sessions_are_put_together_from_all_their_files(write: Write, tmp_path: Path) -> None:
    def message(name: str, role: str, created: int) -> None:
        record = {"id": name, "sessionID": "s1", "role": role, "time": {"created": 1730000000000 + created}}
        write(f"storage/message/s1/{name}.json", record)

    def part(message_id: str, number: int, **fields: object) -> None:
        record = {"id": f"{message_id}-{number}", "messageID": message_id, **fields}
        write(f"storage/part/{message_id}/{number}.json", record)

    session = {
        "id": "s1",
        "projectID": "p",
        "directory": "/w/shop",
        "parentID": None,
        "time": {"created": 1730000000000},
    }
    write("storage/session/p/s1.json", session)
    message("zz-first", "user", 1000)
    message("aa-second", "assistant", 2000)
    part("zz-first", 1, type="text", text="go")
    part("aa-second", 1, type="reasoning", text="hm")
    state = {"status": "completed", "input": {"command": "make"}, "output": "boom", "metadata": {"exit": 2}}
    part("aa-second", 2, type="tool", tool="bash", callID="c1", state=state)
    part("aa-second", 3, type="tool", tool="read", callID="c2", state={"status": "error", "error": "no such file"})
    part("aa-second", 4, type="tool", tool="ask", callID="c3", state={"status": "running", "input": {}})
    part("aa-second", 5, type="text", text="It failed")
    part("gone", 1, type="text", text="lost")
    assert detect(tmp_path / "storage") == "opencode"
    reading = read(tmp_path)
    assert (reading.only.key, reading.only.project) == ("s1", "shop")
    assert results(reading.only) == [("bash", "boom", ERROR), ("read", "no such file", ERROR), ("ask", None, None)]
    assert turns(reading.only) == [0, 0, 0]
    assert said(reading.only) == [("user", "go"), ("assistant", "It failed")]
    assert reading.reasons == ["parts of messages that are not there: 1"]
    assert read(tmp_path / "storage/part/gone").reasons == ["parts of messages that are not there: 1"]


@pytest.mark.parametrize("name", ["cursor", "grok", "kimi", "antigravity"])
def test_a_log_that_grows_stays_the_same_session(write: Write, name: str) -> None:
    unique = "0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f"
    whole = as_lines(SAMPLES[name])
    begun = "".join(whole.splitlines(keepends=True)[:-1])
    sessions = [read(write(f"{unique}/{unique}.jsonl", content)).only for content in (begun, whole)]
    assert sessions[0].page_id == sessions[1].page_id
    assert len(sessions[0].steps) < len(sessions[1].steps)


def test_grok_takes_id_folder_and_origin_from_the_summary_beside_the_history(write: Write, tmp_path: Path) -> None:
    write("a/chat_history.jsonl", as_lines(SAMPLES["grok"]))
    info = {"id": "s1", "cwd": "/w/shop"}
    write("a/summary.json", {"info": info, "chat_format_version": 1, "session_kind": "subagent"})
    reading = read(tmp_path)
    assert (reading.only.key, reading.only.project, reading.only.origin) == ("s1", "shop", Origin.SUBAGENT)
    assert reading.skipped == []
