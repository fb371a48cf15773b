"""The figures about lessons count what they say they count."""

from __future__ import annotations

from benchmarks.decoys import DECOYS
from benchmarks.lessons import Ranking, foreseen, halves
from instar.engine.session import Message, ResultStatus, Session, Speaker, ToolCall, ToolResult


def recovered(number: int, fixed: str) -> Session:
    bad = f"W{1000 + number}"
    steps = [
        Message(0, Speaker.USER, "hi"),
        ToolCall(1, "a", "get_order", {"order_id": bad}, 0),
        ToolResult(2, "a", "get_order", "Error: order not found", ResultStatus.ERROR, "Error: order not found"),
        ToolCall(3, "b", "get_order", {"order_id": fixed.format(bad)}, 1),
        ToolResult(4, "b", "get_order", {"ok": True}),
    ]
    return Session(f"s{number}", "test", "shop", f"t{number}", steps)


def test_the_same_recovery_is_foreseen() -> None:
    counts = foreseen([recovered(number, "#{}") for number in range(12)], splits=5)
    assert counts.share == 1.0
    assert counts.recovered == counts.failures == 30


def test_another_recovery_is_not_foreseen() -> None:
    mixed = [recovered(number, "#{}") for number in range(12)] + [
        recovered(20 + number, f"X{number}{{}}") for number in range(4)
    ]
    counts = foreseen(mixed, splits=5)
    assert 0 < counts.share < 0.8
    assert foreseen([recovered(number, f"X{number}{{}}") for number in range(12)], splits=5).share == 0.0


def test_a_failure_without_a_recovery_is_not_in_the_share() -> None:
    lost = recovered(1, "#{}")
    lost = Session("lost", "test", "shop", "lost", lost.steps[:3])
    counts = foreseen([lost], splits=2)
    assert (counts.recovered, counts.share) == (0, 0.0)


def test_halves_never_share_a_task_and_repeat_for_a_seed() -> None:
    sessions = [recovered(number, "#{}") for number in range(9)]
    learned, left_out = halves(sessions, 3)
    assert not {session.task for session in learned} & {session.task for session in left_out}
    assert len(learned) + len(left_out) == 9
    assert halves(sessions[::-1], 3)[0] == learned[::-1]


def test_the_ranking_finds_by_words_among_fifty_others() -> None:
    assert len(DECOYS) == 50
    ranking = Ranking({**DECOYS, "mine": "Use when a request (reservation, cancel, flight) gives the user id."})
    assert ranking.best("I want to cancel the reservation of my flight", 3)[0] == "mine"
    assert ranking.best("Please review my pull request before I merge the branch", 1) == ["code-review"]
