"""Recorded tools that are a built-in by another name, and where calls of built-in tools led."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from instar.engine.compiler.reach import reach_of
from instar.engine.documents import Window
from instar.engine.llm.grants import how_to_call, used
from instar.engine.llm.standins import read_as_built_in
from instar.engine.session import Message, ResultStatus, Session, Speaker, ToolCall, ToolResult
from instar.skills.manifest import Dependency

SAME = {"fetch": "http.get", "read_note": "files.read", "save": "files.write"}


def session(
    tool: str,
    arguments: dict[str, JsonValue],
    value: JsonValue,
    *,
    task: str = "t",
    status: ResultStatus = ResultStatus.OK,
) -> Session:
    error = "no" if status is not ResultStatus.OK else None
    steps = (
        Message(0, Speaker.USER, "please"),
        ToolCall(1, "c", tool, arguments, 0),
        ToolResult(2, "c", tool, value, status, error),
    )
    return Session(f"{task}-{tool}", "test", "p", task, steps)


def read(*given: Session) -> list[tuple[str, dict[str, JsonValue], JsonValue]]:
    found = []
    for one in read_as_built_in(Window("s", given), SAME).sessions:
        ((call, result),) = one.exchanges()
        assert result is not None
        assert result.tool == call.tool
        found.append((call.tool, call.arguments, result.value))
    return found


def test_calls_of_the_named_tools_are_read_in_the_form_of_the_built_in() -> None:
    url = "https://shop.example/a"
    assert read(
        session("fetch", {"address": url}, "<html>"),
        session("read_note", {"file": "/srv/a.txt"}, "text"),
        session("save", {"content": "ü", "to": "/srv/b.txt"}, None),
    ) == [
        ("http.get", {"url": url}, {"status": 200, "type": "", "text": "<html>"}),
        ("files.read", {"path": "/srv/a.txt"}, "text"),
        ("files.write", {"path": "/srv/b.txt", "text": "ü"}, {"bytes": 2}),
    ]


def test_the_evidence_stays_where_it_was() -> None:
    before = session("fetch", {"u": "https://shop.example/"}, "page")
    (after,) = read_as_built_in(Window("s", [before]), SAME).sessions
    assert after.page_id == before.page_id
    assert [step.index for step in after.steps] == [0, 1, 2]


@pytest.mark.parametrize(
    ("tool", "arguments", "value"),
    [
        ("fetch", {"address": "https://shop.example/", "prompt": "sum up"}, "a summary"),
        ("fetch", {"address": "no url"}, "page"),
        ("fetch", {"address": "https://shop.example/"}, {"html": "page"}),
        ("read_note", {"file": "a.txt"}, "text"),
        ("read_note", {"file": "/srv/../a.txt"}, "text"),
        ("save", {"to": "/srv/b.txt"}, None),
        ("save", {"to": "/srv/b.txt", "text": 7}, None),
        ("other", {"address": "https://shop.example/"}, "page"),
    ],
)
def test_a_call_of_another_form_stays_what_it_was(
    tool: str, arguments: dict[str, JsonValue], value: JsonValue
) -> None:
    assert read(session(tool, arguments, value)) == [(tool, arguments, value)]


def test_a_failed_call_keeps_its_error() -> None:
    failed = session("fetch", {"u": "https://shop.example/"}, None, status=ResultStatus.ERROR)
    (after,) = read_as_built_in(Window("s", [failed]), SAME).sessions
    ((call, result),) = after.exchanges()
    assert result is not None
    assert (call.tool, result.error, result.value) == ("http.get", "no", None)


def test_places_that_answered_in_two_tasks_are_reached_and_no_others() -> None:
    def got(host: str, task: str, status: ResultStatus = ResultStatus.OK) -> Session:
        return session("http.get", {"url": f"https://{host}/x"}, {}, task=task, status=status)

    sessions = [
        got("b.example", "1"), got("b.example", "2"), got("a.example", "1"), got("a.example", "3"),
        got("lone.example", "1"), got("lone.example", "1"),
        got("down.example", "1", ResultStatus.ERROR), got("down.example", "2", ResultStatus.ERROR),
        session("http.get", {"url": 7}, {}, task="4"),
    ]  # fmt: skip
    assert reach_of("http.get", sessions) == ["a.example", "b.example"]
    assert reach_of("get_order", sessions) == []


def test_only_wheels_that_a_program_imports_come_along() -> None:
    pins = [Dependency(name="big-one", version="1", sha256=["0" * 64], modules=["big"]),
            Dependency(name="small", version="1", sha256=["0" * 64], modules=["small"])]  # fmt: skip
    assert used(pins, "from big.inner import thing\n") == pins
    assert used(pins, "import bigger\nimport json\n") == []
    assert how_to_call(["http.get", "get_order"], pins).count("\n") == 2
