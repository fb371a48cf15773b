"""Pseudonyms keep equalities and forms, and keep nothing that identifies."""

from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from instar.engine.compiler.pseudonyms import Pseudonyms
from instar.skills.cases import Case, RecordedCall

PROFILE = {
    "user_id": "omar_davis_3817",
    "name": {"first_name": "Omar", "last_name": "Davis"},
    "email": "omar.davis7857@example.com",
    "phone": "+49 170 5550123",
    "address": {"address1": "281 Spruce Street", "city": "Denver", "zip": "92164"},
    "dob": "1982-10-19",
    "payment_methods": {"card_2929732": {"id": "card_2929732", "amount": 22}},
    "reservations": ["JG7FMM", "LQ940Q"],
    "member_since": "2019-05-04",
    "tier": "gold",
    "log": "/var/log/app/omar.log",
}


def case(**changes: object) -> Case:
    values = {
        "name": "case-1",
        "arguments": {"user_id": "omar_davis_3817"},
        "calls": [
            RecordedCall(tool="get_user", arguments={"user_id": "omar_davis_3817"}, result=PROFILE),
            RecordedCall(
                tool="get_reservation", arguments={"id": "LQ940Q"}, error="Error: LQ940Q of omar_davis_3817 is gone."
            ),
        ],
        "returns": {"user": PROFILE},
    }
    return Case.model_validate(values | changes)


def replaced(*cases: Case, **options: object) -> list[Case]:
    return Pseudonyms(salt="s", **options).cases(cases)  # type: ignore[arg-type]


def test_nothing_that_identifies_is_left() -> None:
    shown = replaced(case())[0].model_dump_json()
    secrets = "omar_davis Omar Davis 3817 7857 5550123 Spruce 92164 1982-10-19 2929732 JG7FMM LQ940Q"
    for secret in secrets.split():
        assert secret not in shown.replace("/var/log/app/omar.log", ""), secret


def test_what_does_not_identify_is_kept() -> None:
    profile = replaced(case())[0].returns["user"]  # type: ignore[index,call-overload]
    assert profile["tier"] == "gold"
    assert profile["member_since"] == "2019-05-04"
    assert profile["address"]["city"] == "Denver"
    assert profile["log"] == "/var/log/app/omar.log"
    assert next(iter(profile["payment_methods"].values()))["amount"] == 22


def test_equal_values_stay_equal_across_arguments_results_keys_and_errors() -> None:
    made = replaced(case())[0]
    user = made.arguments["user_id"]
    first, second = made.calls
    assert first.arguments["user_id"] == user == first.result["user_id"]  # type: ignore[index,call-overload]
    card, details = next(iter(first.result["payment_methods"].items()))  # type: ignore[index,call-overload]
    assert card == details["id"]
    reservation = first.result["reservations"][1]  # type: ignore[index,call-overload]
    assert second.arguments["id"] == reservation
    assert second.error == f"Error: {reservation} of {user} is gone."
    assert made.returns == {"user": first.result}


def test_forms_are_kept() -> None:
    profile = replaced(case())[0].returns["user"]  # type: ignore[index,call-overload]
    assert re.fullmatch(r"[a-z]+_[a-z]+_\d{4}", profile["user_id"])
    assert re.fullmatch(r"[a-z]+\.[a-z]+\d{4}@example\.com", profile["email"])
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", profile["dob"])
    assert re.fullmatch(r"[A-Z]{2}\d[A-Z]{3}", profile["reservations"][0])
    assert re.fullmatch(r"\d{5}", profile["address"]["zip"])
    assert profile["user_id"].split("_")[0] == profile["name"]["first_name"].lower()


def test_other_packages_get_other_pseudonyms_and_the_same_the_same() -> None:
    one, other = (Pseudonyms(salt=salt).cases([case()])[0] for salt in ("a", "b"))
    assert one.arguments != other.arguments
    assert one == Pseudonyms(salt="a").cases([case()])[0]


def test_constants_of_the_plan_are_kept() -> None:
    assert replaced(case(), keep={"omar_davis_3817"})[0].arguments == {"user_id": "omar_davis_3817"}


ids = st.from_regex(r"[A-Z]{1,3}[0-9]{3,6}", fullmatch=True)


@given(st.lists(ids, min_size=2, max_size=12, unique=True))
def test_different_ids_get_different_pseudonyms(values: list[str]) -> None:
    made = replaced(case(arguments={"ids": list(values)}, calls=[], returns=None))[0].arguments["ids"]
    assert isinstance(made, list)
    assert len(set(map(str, made))) == len(values)
    assert not set(map(str, made)) & set(values)


scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=20)
values = st.recursive(
    scalars, lambda inner: st.dictionaries(st.text(max_size=8), inner, max_size=3) | st.lists(inner, max_size=3)
)


@given(values)
def test_any_json_keeps_its_structure(value: object) -> None:
    made = replaced(case(arguments={}, calls=[], returns=value))[0].returns
    assert json.dumps(outline(made)) == json.dumps(outline(value))


def outline(value: object) -> object:
    if isinstance(value, dict):
        return [outline(item) for item in value.values()]
    if isinstance(value, list):
        return [outline(item) for item in value]
    return type(value).__name__
