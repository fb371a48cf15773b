"""Real sessions, as others recorded them: what is read from each folder, counted once by hand and kept."""

from __future__ import annotations

from collections import Counter

import pytest

from instar.engine.session import ResultStatus, ToolCall, ToolResult

from .conftest import Reading, data_folder, read


def counts(reading: Reading) -> dict[str, int]:
    found: Counter[str] = Counter(
        sessions=len(reading.sessions),
        tasks=len({(session.project, session.task) for session in reading.sessions}),
    )
    for session in reading.sessions:
        assert [step.index for step in session.steps] == list(range(len(session.steps)))
        for step in session.steps:
            if isinstance(step, ToolCall):
                found["calls"] += 1
            elif isinstance(step, ToolResult) and step.status is not ResultStatus.OK:
                found[step.status.value] += 1
    assert len({session.page_id for session in reading.sessions}) == len(reading.sessions)
    return dict(found)


def test_tau_bench_airline() -> None:
    reading = read(data_folder("tau-bench"))
    assert counts(reading) == {"sessions": 100, "tasks": 25, "calls": 577, "error": 21}
    assert {session.project for session in reading.sessions} == {"tau-bench/airline"}
    assert Counter(session.outcome.status.value for session in reading.sessions) == {"success": 49, "failure": 51}
    with_calls = [session for session in reading.sessions if list(session.exchanges())]
    assert all(session.tools for session in with_calls)
    assert all(told is not None for session in reading.sessions for _, told in session.exchanges())
    assert len(reading.skipped) == 12  # databases, policies, few-shot texts


def test_agentrx_retail() -> None:
    reading = read(data_folder("agentrx"))
    assert counts(reading) == {"sessions": 50, "tasks": 50, "calls": 417, "error": 21}
    assert {session.project for session in reading.sessions} == {"tau-bench/retail"}
    assert Counter(session.outcome.status.value for session in reading.sessions) == {"success": 37, "failure": 13}


@pytest.mark.parametrize(
    ("run", "expected", "successes"),
    [
        ("tau2_claude-sonnet-4.5", {"sessions": 30, "tasks": 30, "calls": 212, "error": 18}, 15),
        ("tau2_gemini-2.5-pro", {"sessions": 30, "tasks": 30, "calls": 1020, "error": 844}, 13),
        ("mcpbench_claude-sonnet-4.5", {"sessions": 51, "tasks": 51, "calls": 1247, "error": 190}, 0),
        ("swebench_claude-sonnet-4.5", {"sessions": 50, "tasks": 50, "calls": 4389, "error": 436}, 27),
        ("terminalbench_claude-sonnet-4.5", {"sessions": 76, "tasks": 76, "calls": 2320, "error": 310}, 36),
    ],
)
def test_general_agentbench(run: str, expected: dict[str, int], successes: int) -> None:
    reading = read(data_folder("general-agentbench") / f"{run}.tar.gz")
    assert counts(reading) == expected
    assert sum(session.outcome.status.value == "success" for session in reading.sessions) == successes
    timed_out = {"mcpbench_claude-sonnet-4.5", "terminalbench_claude-sonnet-4.5"}
    expected_reasons = ["a trace without messages (Task timeout after 3600 seconds)"] if run in timed_out else []
    assert reading.reasons == expected_reasons


def test_claude_code() -> None:
    reading = read(data_folder("claude-code"))
    assert counts(reading) == {"sessions": 41, "tasks": 41, "calls": 998, "error": 41, "refused": 13}
    assert {session.origin.value for session in reading.sessions} == {"interactive"}
    assert sum(session.project == "cli" for session in reading.sessions) == 35
    assert len(reading.skipped) == 43  # 41 files of metadata, LICENSE, SOURCE.txt
