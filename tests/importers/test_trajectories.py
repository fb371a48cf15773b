"""Formats of trajectories and evaluations: ATIF, SWE-agent, Inspect."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import cast

import pytest

from instar.engine.importers import ImportLimits, detect, to_atif
from instar.engine.session import Message, Origin, OutcomeStatus, ResultStatus, Session, ToolResult

from .conftest import Write, as_lines, data_folder, read
from .test_hostile_records import SAMPLES


def agent_step(number: int, calls: list[tuple[str, str]], results: list[dict[str, object]]) -> dict[str, object]:
    return {
        "step_id": number,
        "source": "agent",
        "message": "",
        "tool_calls": [
            {"tool_call_id": key, "function_name": name, "arguments": {"n": number}} for key, name in calls
        ],
        "observation": {"results": results},
    }


def trajectory(**fields: object) -> dict[str, object]:
    steps: list[object] = [
        {"step_id": 1, "source": "system", "message": "Be kind"},
        {"step_id": 2, "source": "user", "message": [{"type": "text", "text": "go"}]},
        agent_step(
            3,
            [("a", "get"), ("b", "get")],
            [
                {"source_call_id": "b", "content": "two"},
                {"source_call_id": "a", "content": "Error: none"},
                {"content": "the clock strikes"},
            ],
        ),
    ]
    agent = {
        "name": "x",
        "version": "1",
        "tool_definitions": [{"type": "function", "function": {"name": "get", "parameters": {"type": "object"}}}],
    }
    return {"schema_version": "ATIF-v1.7", "session_id": "s1", "agent": agent, "steps": steps} | fields


def test_atif_steps_become_messages_calls_and_results(write: Write) -> None:
    extra = {"project": "shop", "task": "t1", "outcome": {"reward": 0}}
    path = write("t.json", trajectory(extra=extra))
    assert detect(path) == "atif"
    session = read(path).only
    assert (session.key, session.project, session.task) == ("s1", "shop", "t1")
    assert session.outcome.status is OutcomeStatus.FAILURE
    assert [tool.name for tool in session.tools] == ["get"]
    found = [(asked.turn, told and told.value, told and told.status) for asked, told in session.exchanges()]
    assert found == [(0, "Error: none", ResultStatus.ERROR), (0, "two", ResultStatus.OK)]
    said = [(step.speaker.value, step.text) for step in session.steps if isinstance(step, Message)]
    assert said == [("system", "Be kind"), ("user", "go"), ("system", "the clock strikes")]


def test_atif_subagents_are_sessions_and_copied_steps_did_not_happen_here(write: Write) -> None:
    inner = trajectory(trajectory_id="helper", session_id="s1")
    deeper = trajectory(trajectory_id="deeper")
    inner["subagent_trajectories"] = [deeper]
    copied = agent_step(1, [("z", "get")], [{"source_call_id": "z", "content": "old"}]) | {"is_copied_context": True}
    outer = trajectory(subagent_trajectories=[inner])
    outer["steps"] = [copied, {"step_id": 2, "source": "user", "message": "go on"}]
    sessions = {session.key: session for session in read(write("t.json", outer)).sessions}
    assert {key: session.origin for key, session in sessions.items()} == {
        "s1": Origin.INTERACTIVE,
        "s1/helper": Origin.SUBAGENT,
        "s1/s1/deeper": Origin.SUBAGENT,
    }
    assert list(sessions["s1"].exchanges()) == []
    assert len(list(sessions["s1/helper"].exchanges())) == 2


def flat(session: Session) -> list[object]:
    """What was said, asked and told, without the order within a turn."""
    said = [(step.speaker, step.text) for step in session.steps if isinstance(step, Message)]
    asked = [
        (call.tool, call.arguments, call.turn, told and (told.value, told.status, told.error))
        for call, told in session.exchanges()
    ]
    return [said, asked, session.outcome, session.tools, session.task, session.project, session.origin, session.key]


def test_every_kind_of_session_comes_back_from_atif_as_it_was(tmp_path: Path) -> None:
    sources = [Path(__file__).parents[2] / "examples/order_desk/sessions"]
    for name, records in SAMPLES.items():
        sources.append(tmp_path / name)
        sources[-1].write_text(as_lines(records))
    sessions = read(*sources).sessions
    assert len(sessions) > 60 and {session.format for session in sessions} >= set(SAMPLES) - {"openai-tools"}
    for session in sessions:
        path = tmp_path / "out.json"
        path.write_text(json.dumps(to_atif(session)))
        again = read(path).only
        assert flat(again) == flat(session)


def test_a_result_without_its_call_is_written_as_an_event_of_the_system() -> None:
    lost = ToolResult(0, "gone", "f", {"x": 1})
    [step] = cast("list[dict[str, object]]", to_atif(Session("k", "f", "p", "t", [lost]))["steps"])
    assert step["source"] == "system"
    assert step["observation"] == {"results": [{"content": '{"x": 1}', "extra": {"is_error": False}}]}


def test_what_is_written_is_valid_for_the_reference_models() -> None:
    atif = pytest.importorskip("atif", reason="the package atif, which holds models of the format, is not installed")
    for session in read(Path(__file__).parents[2] / "examples/order_desk/sessions").sessions:
        document = to_atif(session)
        assert atif.Trajectory.model_validate(document).to_json_dict(exclude_none=True) == document


def history(*messages: dict[str, object]) -> dict[str, object]:
    return {"history": [{"agent": "main", **message} for message in messages], "trajectory": [], "info": {}}


def test_swe_agent_commands_are_calls_and_observations_their_results(write: Write) -> None:
    path = write(
        "django__django-11099.traj",
        history(
            {"role": "system", "content": "You are a programmer"},
            {"role": "user", "content": "A demonstration", "is_demo": True},
            {"role": "user", "content": "Fix the issue"},
            {"role": "assistant", "content": "Let me look\n```ls```", "thought": "Let me look", "action": "ls\n"},
            {"role": "user", "content": "Traceback (most recent call last): no"},
            {"role": "assistant", "content": "Submitting", "thought": "Submitting", "action": "submit"},
        ),
    )
    assert detect(path) == "swe-agent"
    session = read(path).only
    assert (session.task, session.project) == ("django__django-11099", "django__django")
    found = [(asked.tool, asked.arguments["command"], told and told.status) for asked, told in session.exchanges()]
    assert found == [("shell", "ls", ResultStatus.ERROR), ("shell", "submit", None)]
    said = [(step.speaker.value, step.text) for step in session.steps if isinstance(step, Message)]
    assert ("system", "A demonstration") in said and ("user", "Fix the issue") in said


def test_swe_agent_function_calls_are_read_as_they_are(write: Write) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "open", "arguments": '{"path": "a.py"}'}}
    session = read(
        write(
            "a.traj",
            history(
                {"role": "user", "content": "Fix it"},
                {"role": "assistant", "content": "Opening", "action": "open a.py", "tool_calls": [call]},
                {"role": "tool", "content": "text", "tool_call_ids": ["c1"]},
            ),
        )
    ).only
    [(asked, told)] = session.exchanges()
    assert (asked.tool, asked.arguments, told and told.value) == ("open", {"path": "a.py"}, "text")


def sample(number: int, score: object, **fields: object) -> dict[str, object]:
    messages = [
        {"role": "user", "content": "attachment://abc"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c", "function": "bash", "arguments": {"cmd": "ls"}}],
        },
        {
            "role": "tool",
            "tool_call_id": "c",
            "function": "bash",
            "content": "",
            "error": {"type": "timeout", "message": "took too long"},
        },
    ]
    return {
        "id": number,
        "epoch": 1,
        "input": "x",
        "target": "y",
        "messages": messages,
        "scores": {"match": {"value": score}},
        "attachments": {"abc": "List the files"},
        **fields,
    }


LOG = {"version": 2, "status": "success", "eval": {"task": "files", "run_id": "r1"}, "plan": {}}


def test_inspect_samples_are_sessions_with_their_score(write: Write) -> None:
    path = write("log.json", LOG | {"samples": [sample(1, "C"), sample(2, "I"), sample(3, 0.4)]})
    assert detect(path) == "inspect-ai"
    reading = read(path)
    assert [one.position for one in reading.imported] == [f"line 1 sample {number}" for number in (1, 2, 3)]
    outcomes = [(session.task, session.outcome.status.value, session.outcome.reward) for session in reading.sessions]
    assert outcomes == [("1", "success", None), ("2", "failure", None), ("3", "unknown", 0.4)]
    session = reading.sessions[0]
    assert (session.project, session.key) == ("files", "1.epoch-1.r1")
    [(asked, told)] = session.exchanges()
    assert (asked.tool, asked.arguments) == ("bash", {"cmd": "ls"})
    assert told is not None and (told.status, told.error) == (ResultStatus.ERROR, "took too long")
    assert isinstance(session.steps[0], Message) and session.steps[0].text == "List the files"


def test_an_inspect_archive_gives_its_samples_the_evaluation_from_its_header(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("samples/1_epoch_1.json", json.dumps(sample(1, "C", uuid="u1")))
        archive.writestr("summaries.json", json.dumps([{"id": 1, "epoch": 1, "input": "x", "scores": {}}]))
        archive.writestr("reductions.json", json.dumps([{"scorer": "match", "samples": []}]))
        archive.writestr("header.json", json.dumps(LOG))
        archive.writestr("samples/", "")
    assert detect(path) == "inspect-ai"
    reading = read(path)
    assert (reading.only.key, reading.only.project) == ("u1", "files")
    assert reading.skipped == []


def test_a_zip_archive_is_bounded_and_its_damage_is_named(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.zip"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.json", '{"id": "' + "x" * 5_000_000)
    limits = ImportLimits(expanded_bytes=100_000)
    assert read(bomb, limits=limits).reasons == ["holds more than 100000 bytes once decompressed"]
    cut = tmp_path / "cut.zip"
    cut.write_bytes(bomb.read_bytes()[:-30])
    assert read(cut).reasons[0].startswith("damaged compressed data")


@pytest.mark.parametrize(
    ("folder", "sessions", "calls"),
    [("swe-agent", 13, 126), ("inspect-ai", 9, 9)],
)
def test_recorded_trajectories_and_evaluations(folder: str, sessions: int, calls: int) -> None:
    reading = read(data_folder(folder))
    assert len(reading.sessions) == sessions
    assert sum(len(list(session.exchanges())) for session in reading.sessions) == calls
    assert len({session.page_id for session in reading.sessions}) == sessions
