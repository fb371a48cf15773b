"""The formats of benchmarks: tau-bench, general-agentbench, and lists of tool schemas."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from instar.engine.importers import detect
from instar.engine.session import Message, OutcomeStatus

from .conftest import Write, answer, assistant, call, chat, read, user

POLICY = {"role": "system", "content": "# Airline Agent Policy\n\nBe kind."}
MESSAGES = [
    POLICY,
    user("I am mia_li_3668"),
    assistant(call("a", "get_user_details", '{"user_id": "mia_li_3668"}')),
    answer("a", {"reservations": ["AB12"]}),
]
SCHEMAS = [
    {"type": "function", "function": {"name": name, "description": "d", "parameters": {"type": "object"}}}
    for name in ("get_user_details", "get_reservation_details")
]


def run(task: int, trial: int, reward: float, messages: list[dict[str, object]]) -> dict[str, object]:
    return {"task_id": task, "reward": reward, "info": {}, "traj": messages, "trial": trial}


def trace(task: str, messages: list[dict[str, object]], **fields: object) -> dict[str, object]:
    return {
        "benchmark": "tau2",
        "domain": "retail",
        "task_id": task,
        "trace": {"messages": messages, "steps": [{"step": 0}], "start_time": "2026-01-01T00:00:00"},
        **fields,
    }


def test_tau_bench_runs_carry_task_trial_reward_and_the_domain_of_their_policy(write: Write) -> None:
    path = write("runs.json", [run(3, 0, 1.0, MESSAGES), run(3, 1, 0.0, [*MESSAGES, user("thanks")])])
    assert detect(path) == "tau-bench"
    first, second = read(path).sessions
    assert first.task == second.task == "3"
    assert first.key.startswith("task-3.trial-0.") and second.key.startswith("task-3.trial-1.")
    assert first.project == "tau-bench/airline"
    assert (first.outcome.status, first.outcome.basis) == (OutcomeStatus.SUCCESS, "reward")
    assert second.outcome.status is OutcomeStatus.FAILURE


def test_runs_of_two_models_with_the_same_task_and_trial_are_two_sessions(write: Write) -> None:
    a = write("gpt.json", [run(3, 0, 1.0, MESSAGES)])
    b = write("sonnet.json", [run(3, 0, 1.0, [*MESSAGES, user("thanks")])])
    assert len({session.page_id for session in read(a, b).sessions}) == 2


def test_tool_schemas_reach_the_sessions_of_their_folder_that_call_only_those(write: Write, tmp_path: Path) -> None:
    write("one/runs.json", [run(1, 0, 1.0, MESSAGES)])
    write("one/tools.json", SCHEMAS)
    write("one/unrelated.json", [SCHEMAS[1]])
    write("two/runs.json", [run(2, 0, 1.0, MESSAGES)])
    reading = read(tmp_path)
    tools = {session.task: [tool.name for tool in session.tools] for session in reading.sessions}
    assert tools == {"1": ["get_user_details", "get_reservation_details"], "2": []}
    assert reading.skipped == []
    assert detect(tmp_path / "one/tools.json") == "openai-tools"


def test_environment_data_beside_sessions_is_skipped_by_name(write: Write, tmp_path: Path) -> None:
    write("runs.json", [run(1, 0, 1.0, MESSAGES)])
    write("env_users.json", {"mia": {"name": "Mia"}})
    write("wiki.md", "# Airline Agent Policy\n")
    reading = read(tmp_path)
    assert len(reading.sessions) == 1
    skipped = {one.source.name: one.reason for one in reading.skipped}
    assert skipped["env_users.json"].startswith("unknown format; known formats: antigravity, atif, claude-code, ")
    assert skipped["wiki.md"].startswith("neither JSON nor JSON Lines; known formats: ")


def test_a_trace_is_joined_with_the_evaluation_of_its_name(write: Write, tmp_path: Path) -> None:
    write("run/traces/retail_1.json", trace("1", MESSAGES))
    write("run/traces/retail_2.json", trace("2", MESSAGES))
    write("run/traces/retail_3.json", trace("3", MESSAGES))
    write("run/evaluations/retail_1.json", {"task_id": "1", "benchmark": "tau2", "reward": 1.0, "success": True})
    write("run/evaluations/retail_2.json", {"task_id": "2", "reward_info": {"reward": 0.0}, "messages": MESSAGES})
    reading = read(tmp_path)
    outcomes = {session.task: session.outcome.status.value for session in reading.sessions}
    assert outcomes == {"1": "success", "2": "failure", "3": "unknown"}
    assert {session.project for session in reading.sessions} == {"tau2/retail"}
    assert reading.skipped == []


@pytest.mark.parametrize("names", [("evaluations", "traces"), ("traces", "evaluations")])
@pytest.mark.parametrize("prefix", ["", "./deep/"])
def test_an_archive_is_joined_whatever_comes_first_in_it(tmp_path: Path, names: tuple[str, str], prefix: str) -> None:
    contents = {"traces": trace("1", MESSAGES), "evaluations": {"task_id": "1", "reward": 1.0, "benchmark": "tau2"}}
    path = tmp_path / "run.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            data = json.dumps(contents[name]).encode()
            entry = tarfile.TarInfo(f"{prefix}{name}/a.json")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    reading = read(path)
    assert reading.only.outcome.status is OutcomeStatus.SUCCESS
    assert reading.only.source == f"run.tar.gz:{prefix}traces/a.json"
    assert reading.skipped == []
    assert detect(path) == "general-agentbench"


def test_only_the_messages_of_a_trace_are_read_and_tool_names_keep_their_prefix(write: Write) -> None:
    messages = [user("hi"), assistant(call("a", "retail_get_order", "{}")), answer("a", "{}")]
    session = read(write("traces/a.json", trace("1", messages))).only
    assert [asked.tool for asked, _ in session.exchanges()] == ["retail_get_order"]
    assert sum(isinstance(step, Message) for step in session.steps) == 1


def test_a_trace_that_never_began_is_skipped_with_its_own_error(write: Write) -> None:
    empty = trace("1", [])
    empty["error"] = "Task timeout after 3600 seconds"
    [reason] = read(write("traces/a.json", empty)).reasons
    assert reason == "a trace without messages (Task timeout after 3600 seconds)"


def test_chat_sessions_get_schemas_too_but_their_own_are_preferred(write: Write, tmp_path: Path) -> None:
    asked = [user("go"), assistant(call("a", "get_user_details", "{}"))]
    write("a.json", chat("1", *asked))
    write("b.json", chat("2", *asked, tools=[{"name": "get_user_details", "parameters": {}}]))
    write("c.json", chat("3", user("no call at all")))
    write("tools.json", SCHEMAS)
    counts = {session.key: len(session.tools) for session in read(tmp_path).sessions}
    assert counts == {"1": 2, "2": 1, "3": 0}
