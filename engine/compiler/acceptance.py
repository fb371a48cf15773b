"""Acceptance cases: recorded uses that differ from each other, under pseudonyms, and still replayed exactly."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from instar.engine.compiler.cases import TaskCase, cases_for
from instar.engine.compiler.errors import CallFailed, CompilerError
from instar.engine.compiler.plans import references
from instar.engine.compiler.pseudonyms import Pseudonyms
from instar.engine.compiler.replay import execute
from instar.engine.compiler.values import canonical
from instar.engine.documents import FromConstant, FromResult, Pattern, Plan
from instar.engine.session import Session
from instar.skills.cases import Case

MAX_CASES = 8
MAX_CASE_BYTES = 60_000
"""A case larger than this is left out: a reviewer reads the package."""
TRIED = 40
"""Sessions in which a replayable use is looked for before a pattern is called infeasible."""


def is_feasible(pattern: Pattern, sessions: Sequence[Session]) -> bool:
    """Whether some recorded use of the pattern can be replayed in full: without one there is no acceptance case."""
    shown = {page.rsplit(".", 1)[0] for node in pattern.plan.nodes for page in node.evidence}
    own = [session for session in sessions if session.project == pattern.project and session.page_id in shown]
    chosen = diverse(cases_for(pattern.plan, own[:TRIED]), 3)
    return bool(pseudonymised(pattern.plan, [item.case for item in chosen], own, salt=pattern.id))


def diverse(found: Sequence[TaskCase], limit: int = MAX_CASES) -> list[TaskCase]:
    """Cases that differ: first of unlike shape (inputs, number of calls, errors), then of unlike tasks."""
    ordered = sorted(found, key=lambda item: (_size(item.case), item.case.name))
    ordered = [item for item in ordered if _size(item.case) <= MAX_CASE_BYTES] or ordered[:1]
    chosen: list[TaskCase] = []
    shapes: set[tuple[object, ...]] = set()
    tasks: set[str] = set()
    for wanted in ("shape", "task"):
        for item in ordered:
            shape = _shape(item.case)
            new = shape not in shapes if wanted == "shape" else item.task not in tasks
            if new and item not in chosen and len(chosen) < limit:
                chosen.append(item)
                shapes.add(shape)
                tasks.add(item.task)
    return chosen


def pseudonymised(plan: Plan, cases: Sequence[Case], sessions: Sequence[Session], *, salt: str) -> list[Case]:
    """The cases under other names; one that the plan would no longer replay exactly is left out."""
    names = Pseudonyms(salt=salt, sessions=sessions, keep=_kept(plan))
    replaced = names.cases(cases)
    return [
        case.model_copy(update={"name": f"case-{number}"})
        for number, case in enumerate((case for case in replaced if _replays(plan, case)), start=1)
    ]


def _size(case: Case) -> int:
    return len(case.model_dump_json())


def _shape(case: Case) -> tuple[object, ...]:
    failed = sum(call.error is not None for call in case.calls)
    return tuple(sorted(case.arguments)), min(len(case.calls), 4), min(failed, 1), case.raises is not None


def _kept(plan: Plan) -> set[str]:
    kept: set[str] = set()
    for node in plan.nodes:
        for binding in node.arguments.values():
            for option in references(binding):
                if isinstance(option, FromConstant) and isinstance(option.value, str):
                    kept.add(option.value)
                elif isinstance(option, FromResult):
                    kept.update(step for step in option.path if isinstance(step, str))
    return kept


def _replays(plan: Plan, case: Case) -> bool:
    answers = {canonical([call.tool, call.arguments]): call for call in case.calls}

    def call(tool: str, arguments: dict[str, JsonValue]) -> JsonValue:
        answer = answers[canonical([tool, arguments])]
        if answer.error is not None:
            raise CallFailed(tool, answer.error)
        return answer.result

    try:
        returned = execute(plan, dict(case.arguments), call)
    except CompilerError as failure:
        return case.raises == str(failure)
    except KeyError:
        return False
    return case.raises is None and canonical(returned) == canonical(case.returns)
