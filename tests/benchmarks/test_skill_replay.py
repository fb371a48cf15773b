from __future__ import annotations

import io
import json
import random
import tarfile
from pathlib import Path

from pydantic import JsonValue

from benchmarks.compile import halves, permuted, shuffled
from benchmarks.skill_replay import Cassette, Replayer, Score, ToolFailed
from benchmarks.toolbench import read_toolbench
from instar.engine.compiler.index import Trace, trace
from instar.engine.compiler.mine import mine
from instar.engine.session import Session, Step, ToolCall, ToolResult


def session(task: int, wanted: int, trial: int = 0) -> Session:
    """Read a user with four orders, then `wanted` of the orders, one call per turn."""
    orders = [f"#W{task}{k}77" for k in range(4)]
    calls: list[tuple[str, dict[str, JsonValue], JsonValue]] = [
        ("get_user", {"user_id": f"user_{task}"}, {"orders": list(orders)}),
        *(("get_order", {"order_id": order}, {"order_id": order, "n": task}) for order in orders[:wanted]),
    ]
    steps: list[Step] = []
    for turn, (tool, arguments, answer) in enumerate(calls):
        steps.append(ToolCall(2 * turn, f"c{turn}", tool, arguments, turn))
        steps.append(ToolResult(2 * turn + 1, f"c{turn}", tool, answer))
    return Session(f"{task}/{trial}", "test", "desk", f"task-{task}", tuple(steps))


class Broken:
    """A world in which every call that was not recorded ends in an error."""

    def answer(self, trace: Trace, position: int, tool: str, arguments: dict[str, JsonValue]) -> JsonValue:
        raise ToolFailed("not found")


class Kind:
    """A world that has an answer to everything."""

    def answer(self, trace: Trace, position: int, tool: str, arguments: dict[str, JsonValue]) -> JsonValue:
        return {"order_id": "x"}


LEARNED = mine([session(n, wanted=4) for n in range(8)]).patterns


def score(found: Session, world: Cassette | Broken | Kind) -> Score:
    total = Score()
    read = trace(found)
    total.add(read, Replayer(LEARNED[:1], world).needed(read))
    return total


def test_a_use_that_makes_the_agents_calls_is_exact_and_saves_all_turns_but_one() -> None:
    total = score(session(20, wanted=4), Cassette())
    assert dict(total.verdicts) == {"exact": 1}
    assert (total.saved, total.turns, total.coverage, total.needed_share) == (4, 5, 1.0, 1.0)


def test_further_reads_are_a_superset_unless_one_fails_or_nothing_can_answer() -> None:
    assert dict(score(session(20, wanted=2), Kind()).verdicts) == {"superset": 1}
    assert dict(score(session(20, wanted=2), Broken()).verdicts) == {"wrong": 1}
    assert dict(score(session(20, wanted=2), Cassette()).verdicts) == {"uncovered": 1}
    assert score(session(20, wanted=2), Kind()).needed_share == 3 / 5


def test_a_use_that_saves_nothing_is_not_needed() -> None:
    total = score(session(20, wanted=0), Kind())
    assert total.uses == 0
    assert total.coverage == 0


def test_no_task_is_on_both_sides_of_a_split() -> None:
    sessions = [session(n, wanted=1, trial=trial) for n in range(7) for trial in range(3)]
    for seed in range(5):
        learned, left_out = halves(sessions, seed)
        assert not {s.task for s in learned} & {s.task for s in left_out}
        assert len(learned) + len(left_out) == len(sessions)
        assert halves(sessions, seed) == (learned, left_out)


def test_shuffled_answers_come_from_other_tasks_and_bind_nothing() -> None:
    sessions = [session(n, wanted=4) for n in range(8)]
    for before, after in zip(sessions, shuffled(sessions, random.Random(1)), strict=True):  # noqa: S311 — any order
        own = {json.dumps(step.value) for step in before.steps if isinstance(step, ToolResult)}
        assert not own & {json.dumps(step.value) for step in after.steps if isinstance(step, ToolResult)}
    assert permuted(sessions, 3) == 0


def test_a_toolbench_tree_becomes_a_session(tmp_path: Path) -> None:
    cut = "{'name': 'search_x', 'arguments': '{\\n  \"q\": \"tea\"\\n}', 'response': '{\"err"
    leaf = {"role": "tool", "message": "{'name': 'Finish', 'arguments': '{}'", "next": []}
    tree = [{"role": "system", "message": "", "next": [{"role": "tool", "message": cut, "next": [leaf]}]}]
    text = json.dumps({"7": {"query": "find tea", "answer": {"answer_details": tree}}}).encode()
    archive = tmp_path / "a.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        info = tarfile.TarInfo("G1.json")
        info.size = len(text)
        file.addfile(info, io.BytesIO(text))
    (found,) = read_toolbench(archive)
    assert found.task == "7"
    (call,) = [step for step in found.steps if isinstance(step, ToolCall)]
    assert (call.tool, call.arguments) == ("search_x", {"q": "tea"})
