"""Memories say little, cite what they say, and conclude nothing from words in pasted text."""

from __future__ import annotations

from instar.engine.compiler.distill import VALUE, brief, distill
from instar.engine.documents import Memory, MemoryKind
from instar.engine.session import Session


def kinds(memories: list[Memory]) -> list[str]:
    return [memory.kind.value for memory in memories]


def test_a_session_with_nothing_to_say_yields_its_outcome_only(record) -> None:
    memories = distill(record("a", [("user", "hi"), ("assistant", "hello")]))
    assert kinds(memories) == ["outcome"]
    assert memories[0].status == ""


def test_an_empty_session_yields_nothing(record) -> None:
    assert distill(record("a", [])) == []


def test_words_in_text_decide_nothing(record) -> None:
    session = record(
        "a",
        [
            ("user", "This is wrong, it failed with Error: everything is broken. Success!"),
            ("read_file", {"path": "notes.txt"}, "Traceback: the task failed, wrong answer"),
        ],
        success=True,
    )
    memories = distill(session)
    assert kinds(memories) == ["outcome", "procedure"]
    assert memories[0].status == "success"


def test_a_failure_and_its_recovery_are_told_with_their_steps(record) -> None:
    session = record(
        "a",
        [
            ("get_order", {"order_id": "W1001"}, "Error: order not found", "error"),
            ("get_order", {"order_id": "#W1001"}, {"total": 3}),
        ],
    )
    _, _, failure, recovery = distill(session)
    assert (failure.kind, failure.status) == (MemoryKind.FAILURE, "error")
    assert failure.evidence == [session.evidence_id(0), session.evidence_id(1)]
    assert (recovery.kind, recovery.status) == (MemoryKind.RECOVERY, "success")
    assert "put `#` in front of `order_id`" in recovery.statement
    assert recovery.evidence == [session.evidence_id(index) for index in range(4)]


def test_no_memory_claims_success_about_an_error(record) -> None:
    session = record("a", [("pay", {"amount": 3}, "Error: declined", "error")] * 3)
    assert all(memory.status != "success" for memory in distill(session))


def test_the_same_failure_is_told_once_with_its_count(record) -> None:
    session = record("a", [("pay", {"amount": number}, "Error: declined", "error") for number in range(7)])
    failures = [memory for memory in distill(session) if memory.kind is MemoryKind.FAILURE]
    assert len(failures) == 1
    assert "7 times" in failures[0].statement


def test_a_refusal_is_feedback_and_no_failure(record) -> None:
    session = record(
        "a",
        [
            ("Bash", {"command": "git push --force"}, "The user doesn't want to proceed", "refused"),
            ("user", "never force-push here"),
        ],
    )
    memories = distill(session)
    assert kinds(memories) == ["outcome", "procedure", "feedback"]
    assert "never force-push here" in memories[-1].statement
    assert session.evidence_id(2) in memories[-1].evidence


def test_what_is_said_later_is_not_taken_for_the_reason(record) -> None:
    session = record(
        "a",
        [
            ("Bash", {"command": "ls"}, "no", "refused"),
            ("assistant", "I stop."),
            ("user", "something else"),
        ],
    )
    assert "something else" not in distill(session)[-1].statement


def test_long_values_are_cut(record) -> None:
    assert len(brief("x" * 10_000)) == VALUE
    session = record("a", [("write", {"text": "secret " * 500}, "Error: disk full", "error")])
    assert all(len(memory.statement) < 4 * VALUE for memory in distill(session))


def test_every_memory_cites_steps_of_its_session_and_is_the_same_each_time(record) -> None:
    session: Session = record(
        "a",
        [
            ("find", {"q": "a"}, "Error: 'a' is unknown", "error"),
            ("find", {"q": "abc"}, {"id": 4}),
            [("get", {"id": 4}, {"x": 1}), ("get", {"id": 5}, {"x": 2})],
        ],
        success=False,
    )
    pages = {session.evidence_id(step.index) for step in session.steps}
    memories = distill(session)
    assert memories == distill(session)
    assert all(set(memory.evidence) <= pages for memory in memories)
    assert len({memory.id for memory in memories}) == len(memories)


def test_the_same_words_about_two_moments_are_two_memories(record) -> None:
    refused = ("write_file", {"path": "a.md"}, "The user refused", "refused")
    memories = distill(record("s", [("user", "go on"), refused, ("user", "again"), refused]))
    feedback = [memory for memory in memories if memory.kind is MemoryKind.FEEDBACK]
    assert len({memory.id for memory in feedback}) == len(feedback) == 2


def test_a_session_that_grew_gives_new_pages_instead_of_other_content_under_old_ids(record) -> None:
    steps = [("user", "hi"), ("get", {"n": 1}, {})]
    before, after = (distill(record("a", taken)) for taken in (steps, [*steps, ("assistant", "done")]))
    known = {memory.id: memory for memory in before}
    assert all(known.get(memory.id, memory) == memory for memory in after)
    assert before[0].id != after[0].id


def test_the_reason_that_came_with_a_refusal_is_told(record) -> None:
    refusal = "The user doesn't want to proceed. To tell you how to proceed, the user said:\nuse the other branch"
    session = record("a", [("Bash", {"command": "git merge main"}, refusal, "refused")])
    assert distill(session)[-1].statement.endswith("and said: “use the other branch”.")
