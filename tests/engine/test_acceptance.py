"""Acceptance cases show unlike uses; a description stays short enough to be seen."""

from __future__ import annotations

from instar.engine.compiler.acceptance import diverse
from instar.engine.compiler.cases import TaskCase
from instar.engine.compiler.compiler import Compiler
from instar.engine.documents import Catalogue, Window
from instar.engine.session import Session
from instar.skills.cases import Case, RecordedCall
from instar.skills.document import SHORT_DESCRIPTION, description_of


def used(number: int, *tools: str, task: str = "", error: bool = False, **inputs: int) -> TaskCase:
    calls = [
        RecordedCall(tool=tool, arguments={"n": place}, error="no" if error else None)
        for place, tool in enumerate(tools)
    ]
    case = Case(name=f"case-{number:02}", arguments=dict(inputs), calls=calls, returns=number)
    return TaskCase(task or f"t{number}", case, (f"s{number}.00001",))


def names(chosen: list[TaskCase]) -> set[str]:
    return {item.case.name for item in chosen}


def test_every_kind_of_use_is_shown_before_one_is_shown_twice() -> None:
    plain = [used(number, "get", user=number) for number in range(10)]
    looped = used(20, "get", "order", "order", user=1)
    failing = used(21, "get", error=True, user=1)
    other_input = used(22, "get", email=1)
    chosen = diverse([*plain, looped, failing, other_input], limit=4)
    assert {"case-20", "case-21", "case-22"} < names(chosen)


def test_other_tasks_are_preferred_to_trials_of_one() -> None:
    trials = [used(number, "get", task="same", user=number) for number in range(5)]
    chosen = diverse([*trials, used(9, "get", "get", task="other", user=9)], limit=2)
    assert {item.task for item in chosen} == {"same", "other"}


def test_the_order_of_cases_does_not_matter() -> None:
    cases = [used(number, "get", *["order"] * (number % 3), user=number) for number in range(9)]
    assert diverse(cases) == diverse(cases[::-1])


def test_a_case_too_large_to_read_is_left_out_unless_there_is_no_other() -> None:
    large = TaskCase("t", Case(name="large", arguments={}, returns="x" * 100_000), ())
    assert names(diverse([large, used(1, "get")])) == {"case-01"}
    assert names(diverse([large])) == {"large"}


def test_a_description_fits_what_strict_hosts_show(desks: list[Session]) -> None:
    window = Window("test", desks)
    compiler = Compiler()
    prd = compiler.specify(compiler.reflect(window, Catalogue()).proposals[0], window)
    description = description_of(compiler.write(prd, Catalogue()).files["SKILL.md"])
    assert len(description) <= SHORT_DESCRIPTION
    assert description.startswith("Use when a request")
