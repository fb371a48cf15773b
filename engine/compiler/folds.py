"""Hold-outs: the plan as it would have been mined without one task, and what that task recorded."""

from __future__ import annotations

from collections.abc import Sequence

from instar.engine.compiler.cases import TaskCase, cases_for
from instar.engine.compiler.mine import mine
from instar.engine.compiler.settings import DEFAULTS, MiningSettings
from instar.engine.documents import FoldPlan, Pattern, Plan
from instar.engine.session import Session

MAX_CASES = 4
"""Cases kept per hold-out."""
MAX_SESSIONS = 600
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
    sample = sorted(own, key=lambda session: session.page_id)[:MAX_SESSIONS]
    folds = []
    for task in chosen:
        plan = _without(task, pattern, sample, settings)
        left_out = [session for session in own if session.task == task]
        replayed = [] if plan is None else cases_for(plan, left_out, settings.effects)
        folds.append(FoldPlan(task=task, plan=plan, cases=[found.case for found in replayed[:MAX_CASES]]))
    return folds


def _without(task: str, pattern: Pattern, sessions: Sequence[Session], settings: MiningSettings) -> Plan | None:
    """Mine again without a task and return the plan that starts with the same tools, if there still is one."""
    mined = mine([session for session in sessions if session.task != task], settings)
    wanted = pattern.plan.nodes[0].tool
    return next((found.plan for found in mined.patterns if found.plan.nodes[0].tool == wanted), None)
