"""A lesson is what recoveries agree on; what later evidence contradicts is withdrawn."""

from __future__ import annotations

import pytest

from instar.engine.compiler.changes import Change, ChangeKind, differences
from instar.engine.compiler.lessons import LessonSettings, clusters
from instar.engine.compiler.recoveries import failures_of
from instar.engine.session import Session

NOT_FOUND = "Error: order not found"


def hash_sign(record, number: int) -> Session:
    order = f"W{1000 + number}"
    return record(
        f"s{number}",
        [
            ("get_order", {"order_id": order}, NOT_FOUND, "error"),
            ("get_order", {"order_id": f"#{order}"}, {"order_id": f"#{order}"}),
        ],
    )


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"id": "W12"}, {"id": "#W12"}, Change(ChangeKind.PREFIXED, "id", "#", "A9")),
        ({"id": "W12"}, {"id": "W12-a"}, Change(ChangeKind.SUFFIXED, "id", "-a", "A9")),
        ({"id": "#W12"}, {"id": "W12"}, Change(ChangeKind.STRIPPED, "id", "#", "#A9")),
        ({"kind": "one way"}, {"kind": "one_way"}, Change(ChangeKind.RESPELLED, "kind", "_")),
        ({"city": "paris"}, {"city": "PARIS"}, Change(ChangeKind.RESPELLED, "city", "upper")),
        ({"n": "12"}, {"n": 12}, Change(ChangeKind.RETYPED, "n", "number")),
        ({"on": "true"}, {"on": True}, Change(ChangeKind.RETYPED, "on", "boolean")),
        ({"p": [{"id": "a1"}]}, {"p": [{"key": "a1"}]}, Change(ChangeKind.RENAMED, "p[].id", "p[].key")),
        ({"a": "x"}, {"a": "x", "b": "y"}, Change(ChangeKind.ADDED, "b")),
        ({"a": "x", "b": "y"}, {"a": "x"}, Change(ChangeKind.REMOVED, "b")),
    ],
)
def test_a_change_of_form_is_recognised(before, after, expected: Change) -> None:
    assert expected in set(differences(before, after))
    assert expected.applies(before)
    assert not expected.applies(after)


def test_the_lesson_is_what_recoveries_agree_on(record) -> None:
    (cluster,) = clusters([hash_sign(record, number) for number in range(3)])
    assert cluster.support.tasks == 3
    assert cluster.recovered == 3
    assert cluster.advice[0].change == Change(ChangeKind.PREFIXED, "order_id", "#", "A9")
    assert cluster.lesson().startswith("Put `#` in front of `order_id`")
    assert "3 of 3" in cluster.lesson()


def test_one_task_alone_teaches_nothing(record) -> None:
    repeated = [
        record(
            f"trial-{number}",
            [
                ("get_order", {"order_id": f"W{number}00"}, NOT_FOUND, "error"),
                ("get_order", {"order_id": f"#W{number}00"}, {}),
            ],
            task="the same",
        )
        for number in range(1, 6)
    ]
    assert clusters(repeated)[0].lesson() == ""


def test_advice_that_fails_too_often_is_withdrawn(record) -> None:
    good = [hash_sign(record, number) for number in range(3)]
    bad = [
        record(
            f"bad{number}",
            [
                ("get_order", {"order_id": f"W{number}77"}, NOT_FOUND, "error"),
                ("get_order", {"order_id": f"#W{number}77"}, NOT_FOUND, "error"),
            ],
        )
        for number in range(1, 4)
    ]
    assert clusters(good)[0].advice
    cluster = next(found for found in clusters([*good, *bad]) if found.signature == "order not found")
    assert cluster.lesson() == ""
    assert [advice.change.kind for advice in cluster.withdrawn] == [ChangeKind.PREFIXED]


def test_what_the_user_refuses_counts_against_the_advice(record) -> None:
    def worked_around(number: int, status: str) -> Session:
        return record(
            f"{status}{number}",
            [
                ("deploy", {"target": f"prod{number}"}, "Error: closed during the day", "error"),
                ("deploy", {"target": f"prod{number}", "window": "night"}, "done", *([status] if status else [])),
            ],
        )

    forced = [worked_around(number, "") for number in range(2)]
    assert clusters(forced)[0].advice[0].change == Change(ChangeKind.ADDED, "window")
    refused = [worked_around(number, "refused") for number in range(2)]
    cluster = clusters([*forced, *refused])[0]
    assert cluster.lesson() == ""
    assert cluster.withdrawn


def test_a_refusal_is_no_failure(record) -> None:
    assert failures_of(record("a", [("Bash", {"command": "rm -r x"}, "no", "refused")])) == []


def test_a_search_that_finds_nothing_is_no_failure(record) -> None:
    steps = [("Bash", {"command": "grep -r x ."}, "(no output)", "error"), ("Bash", {"command": "make"}, "", "error")]
    assert [failure.operation.head for failure in failures_of(record("a", steps))] == ["make"]


def test_a_recovery_is_looked_for_within_six_calls(record) -> None:
    failed = ("get_order", {"order_id": "W1"}, NOT_FOUND, "error")
    other = ("list_orders", {}, [])
    found = ("get_order", {"order_id": "#W1"}, {})
    assert failures_of(record("a", [failed, *[other] * 5, found]))[0].recovery is not None
    assert failures_of(record("a", [failed, *[other] * 6, found]))[0].recovery is None


def test_parallel_calls_are_matched_by_what_they_share(record) -> None:
    session = record(
        "a",
        [
            [("get_order", {"order_id": f"W10{number}"}, NOT_FOUND, "error") for number in range(3)],
            [("get_order", {"order_id": f"#W10{number}"}, {}) for number in range(3)],
        ],
    )
    recovered = [failure.recovery.call.arguments["order_id"] for failure in failures_of(session)]
    assert recovered == ["#W100", "#W101", "#W102"]


def test_a_value_taken_from_an_earlier_result_is_told_with_its_place(record) -> None:
    session = record(
        "a",
        [
            ("get_user", {"user_id": "u1"}, {"cards": {"card_551": {"id": "card_551"}}}),
            ("pay", {"card": "card_000", "amount": 5}, "Error: card not found", "error"),
            ("pay", {"card": "card_551", "amount": 5}, "ok"),
        ],
    )
    change = failures_of(session)[0].recovery.changes[0]
    assert change == Change(ChangeKind.TAKEN, "card", "get_user cards.*")


def test_amounts_that_add_up_to_the_total_of_the_error_are_recognised(record) -> None:
    session = record(
        "a",
        [
            (
                "book",
                {"payments": [{"amount": 250}, {"amount": 5}]},
                "Error: total price is 305, but paid 255",
                "error",
            ),
            ("book", {"payments": [{"amount": 250}, {"amount": 55}]}, "ok"),
        ],
    )
    assert failures_of(session)[0].recovery.changes[0] == Change(ChangeKind.SUMMED, "payments[].amount")


def test_a_missing_module_is_recovered_by_installing_it(record) -> None:
    session = record(
        "a",
        [
            ("Bash", {"command": "python -m pytest -q"}, "/usr/bin/python: No module named pytest", "error"),
            ("Bash", {"command": "pip install pytest"}, "Successfully installed"),
            ("Bash", {"command": "python -m pytest -q"}, "3 passed"),
        ],
    )
    assert failures_of(session)[0].recovery.changes[0] == Change(ChangeKind.INSTALLED)


def test_an_edit_after_a_look_is_recovered_by_the_look(record) -> None:
    session = record(
        "a",
        [
            ("Edit", {"file_path": "/r/a.py", "old_string": "x"}, "File has not been read yet.", "error"),
            ("Read", {"file_path": "/r/a.py"}, "x = 1"),
            ("Edit", {"file_path": "/r/a.py", "old_string": "x"}, "ok"),
        ],
    )
    assert failures_of(session)[0].recovery.changes == (Change(ChangeKind.AFTER, detail="Read"),)


def test_repeating_without_success_is_counted(record) -> None:
    session = record("a", [("get_order", {"order_id": "W1"}, NOT_FOUND, "error")] * 4)
    (cluster,) = clusters([session], LessonSettings(min_repeats=3))
    assert cluster.futile_repeats == 3
    assert cluster.lesson() == "Do not repeat it unchanged: all 3 repeats failed."


def test_repeating_is_not_advised_against_where_it_once_helped(record) -> None:
    flaky = [("ping", {"n": 1}, "Error: timed out", "error")] * 6
    (cluster,) = clusters([record("a", flaky), record("b", [*flaky[:1], ("ping", {"n": 1}, "ok")])])
    assert cluster.futile_repeats == 0


def test_the_order_of_sessions_does_not_matter(record) -> None:
    sessions = [hash_sign(record, number) for number in range(8)]
    assert clusters(sessions) == clusters(sessions[::-1]) == clusters([*sessions[3:], *sessions[:3]])


def test_projects_do_not_mix_but_shells_are_the_same_everywhere(record) -> None:
    def in_project(project: str) -> Session:
        return record(
            project,
            [
                ("get_order", {"order_id": "W1"}, NOT_FOUND, "error"),
                ("Bash", {"command": "make"}, "Error: x", "error"),
            ],
            project=project,
        )

    found = clusters([in_project("one"), in_project("two")])
    assert sorted((cluster.scope, len(cluster.failures)) for cluster in found) == [("", 2), ("one", 1), ("two", 1)]


def test_telling_a_tool_to_go_on_all_the_same_is_never_advised(record) -> None:
    sessions = [
        record(
            f"s{number}",
            [
                ("deploy", {"target": f"prod{number}"}, "Error: checks are red", "error"),
                ("deploy", {"target": f"prod{number}", "force": True}, "done"),
                ("Bash", {"command": f"git push origin b{number}"}, "error: rejected by hook", "error"),
                ("Bash", {"command": f"git push origin b{number} --no-verify"}, "done"),
            ],
        )
        for number in range(4)
    ]
    found = clusters(sessions)
    assert [cluster.recovered for cluster in found] == [4, 4]
    assert [cluster.lesson() for cluster in found] == ["", ""]


def test_a_pinned_version_is_part_of_the_advice(record) -> None:
    sessions = [
        record(
            f"s{number}",
            [
                ("Bash", {"command": f"python run{number}.py"}, "RuntimeError: Numpy is not available", "error"),
                ("Bash", {"command": "pip install 'numpy<2'"}, "ok"),
                ("Bash", {"command": f"python run{number}.py"}, "ok"),
            ],
        )
        for number in range(3)
    ]
    assert clusters(sessions)[0].lesson().startswith("Install `numpy<2`, then run it again")


def test_what_the_error_speaks_of_is_advised_first(record) -> None:
    sessions = [
        record(
            f"s{number}",
            [
                ("book", {"pay": [{"id": f"card_{number}"}]}, "Error: card_id is required", "error"),
                ("book", {"pay": [{"card_id": f"card_{number}", "amount": number}]}, "ok"),
            ],
        )
        for number in range(3)
    ]
    assert clusters(sessions)[0].advice[0].change == Change(ChangeKind.RENAMED, "pay[].id", "pay[].card_id")


def test_a_text_that_was_not_unique_is_extended(record) -> None:
    wider = "def first():\n    return None\n\n\ndef second():\n    return None\n"
    before, after = {"old_string": "    return None\n"}, {"old_string": wider}
    assert list(differences(before, after)) == [Change(ChangeKind.EXTENDED, "old_string")]
