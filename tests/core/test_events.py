"""Failures are kept with what caused them, wait until a reflection answers them, and are answered once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from instar.core.errors import NotFound, SourceMissing
from instar.core.events import (
    EVERYTHING,
    EventName,
    event_name,
    find_session,
    give_feedback,
    group_of,
    tell,
    waiting,
)
from instar.core.events_reflection import reflect_on_events
from instar.core.ingest import ingest
from instar.core.learn import distill, window
from instar.core.runtime import Runtime
from instar.engine.session import OutcomeStatus

Write = Callable[..., Path]


def session(
    key: str, *, errors: int = 0, calls: int = 4, tool: str = "get_order", **more: object
) -> dict[str, object]:
    messages: list[dict[str, object]] = [{"role": "user", "content": f"please {key}"}]
    for number in range(calls):
        call = {"name": tool, "arguments": json.dumps({"order_id": f"#W{number}"})}
        content = json.dumps({"error": "no such order"}) if number < errors else json.dumps({"n": number})
        messages += [
            {"role": "assistant", "tool_calls": [{"id": f"c{number}", "type": "function", "function": call}]},
            {"role": "tool", "tool_call_id": f"c{number}", "name": tool, "content": content},
        ]
    return {"id": key, "task": key, "project": "desk", "messages": messages} | more


def names(rt: Runtime) -> list[tuple[str, str]]:
    return sorted((event.name.value, event.cause) for event in waiting(rt))


def test_a_session_that_failed_is_told_of_when_it_is_read(empty: Runtime, write_sessions: Write) -> None:
    report = ingest(empty, [write_sessions(session("a", errors=1, outcome={"reward": 0.0}), session("b"))])
    assert report.events == 1
    assert names(empty) == [("instar.task.failed", "get_order")]


def test_many_failed_calls_are_a_struggle_and_a_few_are_not(empty: Runtime, write_sessions: Write) -> None:
    ingest(empty, [write_sessions(session("a", errors=3), session("b", errors=2), session("c", errors=3, calls=20))])
    assert names(empty) == [("instar.task.struggled", "get_order")]


def test_the_word_error_in_what_is_said_tells_nothing(empty: Runtime, write_sessions: Write) -> None:
    said: dict[str, object] = {"role": "user", "content": "that is wrong, it failed with an error, error, error"}
    ingest(empty, [write_sessions({"id": "a", "project": "desk", "messages": [said, said, said]})])
    assert names(empty) == []


def test_a_call_of_a_tool_that_was_not_offered_is_a_missing_tool(empty: Runtime, write_sessions: Write) -> None:
    offered = [{"type": "function", "function": {"name": "find_order", "parameters": {"type": "object"}}}]
    ingest(empty, [write_sessions(session("a", errors=1, tools=offered))])
    assert names(empty) == [("instar.tool.missing", "get_order")]


def test_reading_a_failed_session_again_tells_nothing_new_and_growing_does(
    empty: Runtime, write_sessions: Write
) -> None:
    ingest(empty, [write_sessions(session("a", errors=1, outcome={"reward": 0.0}))])
    ingest(empty, [write_sessions(session("a", errors=1, outcome={"reward": 0.0}))])
    assert len(names(empty)) == 1
    ingest(empty, [write_sessions(session("a", errors=1, calls=6, outcome={"reward": 0.0}))])
    assert len(names(empty)) == 2


def test_a_failure_of_a_session_that_is_not_learned_from_is_not_told(empty: Runtime, write_sessions: Write) -> None:
    ingest(empty, [write_sessions(session("a", outcome={"reward": 0.0}, origin="headless"))])
    (stored,) = empty.store.find(empty.principal, scope="local", kind="session")
    expected = [] if stored.content["origin"] == "headless" else [("instar.task.failed", "no tool failed")]
    assert names(empty) == expected


def test_a_reflection_answers_exactly_the_events_of_its_group(empty: Runtime, write_sessions: Write) -> None:
    failed = {"outcome": {"reward": 0.0}}
    ingest(
        empty,
        [
            write_sessions(
                session("a", errors=2, **failed),
                session("b", errors=2, **failed),
                session("c", errors=2, tool="cancel_order", **failed),
                session("d"),
            )
        ],
    )
    group = group_of("openai-chat/desk", "get_order")
    answered = reflect_on_events(empty, group)
    assert (answered.events, answered.sessions) == (2, 2)
    assert answered.reflection is not None
    assert answered.reflection.sessions == 2
    assert names(empty) == [("instar.task.failed", "cancel_order")]
    (kept,) = empty.store.find(empty.principal, scope="local", kind="reflection")
    assert kept.id == answered.reflection.id
    answers = [
        page.content["reflection"]
        for page in empty.store.find(empty.principal, scope="local", kind="event", tag=f"group:{group}")
    ]
    assert answers == [kept.id, kept.id]


def test_a_second_reflection_on_the_same_group_finds_nothing_to_do(empty: Runtime, write_sessions: Write) -> None:
    ingest(empty, [write_sessions(session("a", errors=1, outcome={"reward": 0.0}))])
    reflect_on_events(empty)
    before = empty.store.count(empty.principal, scope="local")
    again = reflect_on_events(empty)
    assert (again.events, again.reflection) == (0, None)
    assert empty.store.count(empty.principal, scope="local") == before


def test_a_reflection_tells_no_event_itself(empty: Runtime, write_sessions: Write) -> None:
    ingest(empty, [write_sessions(session("a", errors=3, outcome={"reward": 0.0}))])
    reflect_on_events(empty)
    assert names(empty) == []


def test_a_thousand_failures_are_answered_by_one_reflection(empty: Runtime, write_sessions: Write) -> None:
    stored = write_sessions(session("a"))
    ingest(empty, [stored])
    page = find_session(empty, "a")
    for number in range(1000):
        tell(empty, EventName.FAILED, agent="agent", cause="tool", session=page.id, note=f"number {number % 70}")
    answered = reflect_on_events(empty, group_of("agent", "tool"))
    assert (answered.events, answered.sessions, len(answered.notes)) == (1000, 1, 50)
    assert names(empty) == []


def test_an_event_without_a_session_is_kept_and_answered_without_a_reflection(empty: Runtime) -> None:
    tell(empty, EventName.TOOL_MISSING, agent="bot", cause="send_mail", note="no such tool")
    answered = reflect_on_events(empty, EVERYTHING)
    assert (answered.events, answered.reflection, answered.notes) == (1, None, ["no such tool"])


def test_feedback_counts_as_the_outcome_from_then_on(empty: Runtime, write_sessions: Write) -> None:
    ingest(empty, [write_sessions(session("a", outcome={"reward": 1.0}))])
    give_feedback(empty, "a", good=False, note="it cancelled the wrong order", by="ada")
    (seen,) = window(empty, "local").sessions
    assert (seen.outcome.status, seen.outcome.basis) == (OutcomeStatus.FAILURE, "feedback")
    assert names(empty) == [("instar.feedback.negative", "feedback")]
    give_feedback(empty, "a", good=True)
    (seen,) = window(empty, "local").sessions
    assert seen.outcome.status is OutcomeStatus.SUCCESS


def test_feedback_makes_the_memories_of_its_session_anew(empty: Runtime, write_sessions: Write) -> None:
    ingest(empty, [write_sessions(session("a", outcome={"reward": 1.0}), session("b"))])
    assert distill(empty).sessions == 2
    give_feedback(empty, "a", good=False)
    assert distill(empty).sessions == 1
    assert distill(empty).sessions == 0


def test_a_session_is_found_by_its_key_or_the_beginning_of_its_page(empty: Runtime, write_sessions: Write) -> None:
    ingest(empty, [write_sessions(session("first"), session("second"))])
    page = find_session(empty, "first")
    assert find_session(empty, page.id[:14]).id == page.id
    with pytest.raises(NotFound, match="No session"):
        find_session(empty, "third")
    with pytest.raises(NotFound, match="2 sessions"):
        find_session(empty, "session-")


def test_an_unknown_event_is_refused_with_the_known_ones() -> None:
    assert event_name("task.failed") is event_name("instar.task.failed") is EventName.FAILED
    with pytest.raises(SourceMissing, match=r"instar\.tool\.missing"):
        event_name("task.exploded")


def test_a_group_never_looks_like_a_number() -> None:
    assert all(not group_of("agent", str(number)).replace(".", "").isdigit() for number in range(50))
