"""Acceptance cases: recorded uses that differ from each other, under pseudonyms, and still replayed exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set

from pydantic import JsonValue

from instar.engine.compiler.cases import TaskCase, cases_for
from instar.engine.compiler.errors import CallFailed, CompilerError
from instar.engine.compiler.plans import references
from instar.engine.compiler.pseudonyms import Pseudonyms
from instar.engine.compiler.replay import execute
from instar.engine.compiler.values import canonical
from instar.engine.documents import Pattern
from instar.engine.plan import FromConstant, FromResult, Plan
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
    """Cases that differ: always the one that shows most that is new; of equals a usual kind of use, and a small one.

    New are: an input, a tool called once or in a loop, a tool that fails, an error that ends the use; then another
    kind of use, and another task.
    """
    usual = Counter(_kind(item.case) for item in found)
    ordered = sorted(found, key=lambda item: (-usual[_kind(item.case)], _size(item.case), item.case.name))
    ordered = [item for item in ordered if _size(item.case) <= MAX_CASE_BYTES] or ordered[:1]
    chosen: list[TaskCase] = []
    seen: set[str] = set()
    kinds: set[frozenset[str]] = set()
    while ordered and len(chosen) < limit:
        best = max(ordered, key=lambda item: _novelty(item, seen, kinds))
        chosen.append(best)
        ordered.remove(best)
        kinds.add(_kind(best.case))
        seen |= {*_kind(best.case), best.task}
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


def _novelty(item: TaskCase, seen: Set[str], kinds: Set[frozenset[str]]) -> int:
    kind = _kind(item.case)
    return 4 * len(kind - seen) + 2 * (kind not in kinds) + (item.task not in seen)


def _kind(case: Case) -> frozenset[str]:
    """What a case shows."""
    often = Counter(call.tool for call in case.calls)
    shown = {f"input {name}" for name in case.arguments}
    shown |= {f"{tool} is called {'in a loop' if count > 1 else 'once'}" for tool, count in often.items()}
    shown |= {f"{call.tool} fails" for call in case.calls if call.error is not None}
    return frozenset(shown | ({"ends in an error"} if case.raises is not None else set()))


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
