"""Hold-outs: the plan as it would have been mined without one task, and what that task recorded."""

from __future__ import annotations

from collections.abc import Sequence

from instar.engine.compiler.cases import TaskCase, calls_any, cases_for
from instar.engine.compiler.index import trace
from instar.engine.compiler.mine import mine_again
from instar.engine.compiler.settings import DEFAULTS, MiningSettings
from instar.engine.documents import FoldPlan, Pattern
from instar.engine.session import Session

MAX_CASES = 4
"""Cases kept per hold-out."""
MAX_SESSIONS = 150
"""Sessions a hold-out is mined from; of more, those with the smallest page ids are taken (they are hashes)."""


def fold_plans(
    pattern: Pattern, sessions: Sequence[Session], settings: MiningSettings = DEFAULTS, limit: int = 8
) -> list[FoldPlan]:
    """Leave out each of `limit` tasks: those with most recorded uses that can be replayed in full.

    Expected results come from the plan mined without the task, and only from uses whose every call was recorded.
    """
    own = [session for session in sessions if session.project == pattern.project]
    by_task: dict[str, list[TaskCase]] = {}
    for found in cases_for(pattern.plan, own, settings.effects):
        by_task.setdefault(found.task, []).append(found)
    chosen = sorted(by_task, key=lambda task: (-len(by_task[task]), task))[:limit]
    tools = {node.tool for node in pattern.plan.nodes}
    using = [session for session in own if calls_any(session, tools)]
    sample = {s.page_id: s for s in sorted(using, key=lambda session: session.page_id)[:MAX_SESSIONS]}
    traced = [trace(session, settings.effects, settings.window_steps) for session in sample.values()]
    folds = []
    for task in chosen:
        plan = mine_again(pattern.plan, [found for found in traced if found.task != task], settings)
        left_out = [session for session in own if session.task == task]
        replayed = [] if plan is None else cases_for(plan, left_out, settings.effects)
        folds.append(FoldPlan(task=task, plan=plan, cases=[found.case for found in replayed[:MAX_CASES]]))
    return folds
