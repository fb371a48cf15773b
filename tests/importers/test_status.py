from __future__ import annotations

import pytest
from pydantic import JsonValue

from instar.engine.importers.status import judge
from instar.engine.session import ResultStatus


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("Error: order not found", "Error: order not found"),
        ("Error executing tool get_order: timeout", "Error executing tool get_order: timeout"),
        ("Error (NOT_FOUND): no package", "Error (NOT_FOUND): no package"),
        ("Traceback (most recent call last):\n  File x", "Traceback (most recent call last):\n  File x"),
        ("<tool_use_error>File does not exist.</tool_use_error>", None),
        ("2 validation errors for Payment\namount", None),
        ("ValueError: bad", "ValueError: bad"),
        ("requests.exceptions.ConnectionError: refused", None),
        ({"error": "order not found"}, "order not found"),
        ({"error": {"code": 404, "message": "not here"}}, "not here"),
        ({"error": {"code": 404}}, None),
        ({"isError": True, "message": "denied"}, "denied"),
        ({"output": "make: *** stop", "exit_code": 2}, "make: *** stop"),
        ({"stdout": "", "stderr": "no", "exit_code": 1}, "no"),
    ],
)
def test_structured_signs_of_failure_count(value: JsonValue, message: str | None) -> None:
    status, error = judge(value)
    assert status is ResultStatus.ERROR
    assert error and (message is None or error == message)


@pytest.mark.parametrize(
    "value",
    [
        "The review says the food was wrong and the waiter failed; an error, all in all.",
        "3 errors and 2 failures were fixed in this release",
        "log line\nError: disk full\nTraceback (most recent call last):",
        "Errors are values",
        "Error handling in Go is explicit",
        "not found",
        {"result": {"error": "nested"}, "note": "failed"},
        {"error": None},
        {"error": ""},
        {"error": False},
        {"errors": ["a"]},
        {"status": "failed"},
        {"exit_code": 1},
        {"output": "all wrong", "exit_code": 0},
        {"output": "x", "exit_code": True},
        ["Error: in a list"],
        17,
        None,
    ],
)
def test_words_inside_a_result_never_decide(value: JsonValue) -> None:
    assert judge(value) == (ResultStatus.OK, None)


def test_the_recordings_own_flag_is_trusted_alone() -> None:
    assert judge("Error: quoted from a page", flag=False)[0] is ResultStatus.OK
    assert judge({"error": "asked for"}, flag=False)[0] is ResultStatus.OK
    assert judge("all fine", flag=True) == (ResultStatus.ERROR, "all fine")
    assert judge("", flag=True)[1]


def test_a_refusal_is_told_from_a_failure_only_when_the_recording_flags_it() -> None:
    text = "The user doesn't want to proceed with this tool use. The user said: not that file"
    assert judge(text, flag=True) == (ResultStatus.REFUSED, text)
    assert judge("[Request interrupted by user for tool use]", flag=True)[0] is ResultStatus.REFUSED
    assert judge(text, flag=False)[0] is ResultStatus.OK
    assert judge(text)[0] is ResultStatus.OK
    assert judge("anything", refused=True)[0] is ResultStatus.REFUSED
