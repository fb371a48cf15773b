"""A skill is found by the words of those who needed it: shared ones, never names."""

from __future__ import annotations

from instar.engine.compiler.requests import request_of, stem_of, topics
from instar.engine.compiler.wording import plural, skill_name, title_of
from instar.engine.plan import FromParameter, FromResult, Plan, PlanNode, PlanParameter, Support
from instar.engine.session import Session

SEEN = Support(sessions=4, tasks=4, calls=4)


def plan(
    *nodes: tuple[str, str, dict[str, FromParameter | FromResult]], parameters: tuple[str, ...] = ("user_id",)
) -> Plan:
    return Plan(
        parameters=[PlanParameter(name=name, json_schema={"type": "string"}, description="") for name in parameters],
        nodes=[
            PlanNode(
                name=name,
                tool=tool,
                arguments=dict(arguments),
                support=SEEN,
                confidence=1,
                null_rate=0,
                evidence=["s.1"],
            )
            for name, tool, arguments in nodes
        ],
    )


LOOPED = plan(
    ("user_details", "get_user_details", {"user_id": FromParameter(name="user_id")}),
    ("order_details", "get_order_details", {"order_id": FromResult(node="user_details", path=["orders", "*"])}),
)


def ask(record, number: int, text: str) -> Session:
    return record(f"s{number}", [("user", text), ("get", {"id": number}, {})])


def test_shared_words_come_out_by_how_many_tasks_share_them(record) -> None:
    texts = [
        "Hi, I want to cancel my flight to Denver please",
        "Could you help me with cancelling two flights?",
        "My flight was cancelled. I am Peter Denver.",
        "I need a refund for the flight",
    ]
    assert topics([ask(record, number, text) for number, text in enumerate(texts)]) == ["flight", "cancel"]


def test_names_addresses_and_pasted_text_stay_out(record) -> None:
    texts = [f"Hello, this is Sandra. sandra.miller@mails.example {'x' * number}" for number in range(6)]
    assert topics([ask(record, number, text) for number, text in enumerate(texts)]) == []


def test_only_what_was_said_before_the_first_call_is_the_request(record) -> None:
    session = record("a", [("user", "one"), ("assistant", "?"), ("get", {}, {}), ("user", "two")])
    assert request_of(session) == "one"
    assert request_of(session, before=5) == "one\ntwo"


def test_forms_of_a_word_are_one() -> None:
    assert {stem_of(word) for word in ("cancel", "cancels", "cancelled", "cancelling")} == {"cancel"}
    assert stem_of("exchange") == stem_of("exchanged")
    assert stem_of("address") == "address"


def test_a_skill_is_named_after_its_situation_and_always_the_same() -> None:
    assert skill_name(LOOPED) == "user-with-orders"
    assert title_of(LOOPED) == "User with orders"
    assert skill_name(LOOPED, {"user-with-orders"}) == "user-with-orders-by-user-id"
    assert skill_name(LOOPED, {"user-with-orders", "user-with-orders-by-user-id"}) == "user-with-orders-2"


def test_a_batch_is_named_as_several() -> None:
    batch = plan(
        ("order_details", "get_order_details", {"order_id": FromParameter(name="order_ids", path=["*"])}),
        parameters=("order_ids",),
    )
    assert skill_name(batch) == "several-orders"


def test_a_name_is_ascii_and_short_whatever_the_tool_is_called() -> None:
    odd = plan(("result_of_the_call_" * 6 + "x", "Größe!" * 30, {"user_id": FromParameter(name="user_id")}))
    name = skill_name(odd)
    assert name.isascii()
    assert len(name) <= 64
    assert not name.startswith("-")


def test_plurals() -> None:
    assert [plural(noun) for noun in ("order", "city", "box", "branch", "details", "address", "day")] == [
        "orders", "cities", "boxes", "branches", "details", "addresses", "days",
    ]  # fmt: skip
