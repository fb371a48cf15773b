"""Finds recurring dataflow trees of tool calls in recorded sessions.

A tree starts at a read-only call whose arguments become parameters. A follow-up belongs to it when every argument is
an argument of the first call, a value in an earlier result of the tree, a constant, or at most one new parameter.
Order, optional steps and parallel calls do not matter. Support is counted in distinct tasks, every binding is
compared with the results of other tasks, and what is too thin is said instead of proposed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from instar.engine.compiler.firings import Firing, Tree
from instar.engine.compiler.index import Trace, traces
from instar.engine.compiler.planning import plan_of
from instar.engine.compiler.settings import DEFAULTS, MiningSettings
from instar.engine.compiler.tree import grow
from instar.engine.documents import Abstention, Pattern, Plan, Support
from instar.engine.session import Session

COVERED = 0.8
"""A pattern is left out when this share of its useful firings happens inside those of a larger one."""


@dataclass(frozen=True, slots=True)
class Mined:
    """What recurs, best first, and what was looked at and not believed, most interesting first."""

    patterns: tuple[Pattern, ...]
    abstentions: tuple[Abstention, ...]


def mine(sessions: Sequence[Session], settings: MiningSettings = DEFAULTS) -> Mined:
    """Mine every project for itself. Deterministic; neither the order of sessions nor other projects matter."""
    patterns: list[Pattern] = []
    abstentions: list[tuple[int, Abstention]] = []
    for project, found in traces(sessions, settings.effects, settings.window_steps).items():
        trees, turned_down = _trees(found, settings)
        kept = _without_parts(trees)[: settings.max_patterns]
        patterns += [_pattern(project, tree, settings) for tree in kept]
        abstentions += _abstentions(project, found, kept, turned_down)
    patterns.sort(key=lambda p: (-p.turns_saved * p.support.sessions, p.id))
    abstentions.sort(key=lambda pair: (-pair[0], pair[1].what))
    return Mined(tuple(patterns), tuple(a for _, a in abstentions[: settings.max_abstentions]))


def plan_id(project: str, plan: Plan) -> str:
    """Return an id that depends on what a plan does, not on the evidence for it."""
    shape = [
        [
            node.name,
            node.tool,
            node.switch,
            node.optional,
            {k: b.model_dump() for k, b in sorted(node.arguments.items())},
        ]
        for node in plan.nodes
    ]
    text = json.dumps([project, [p.name for p in plan.parameters], shape], sort_keys=True)
    return f"pattern-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def saved(firing: Firing) -> int:
    """Return the turns one call saves here: the turns all of whose calls it makes, but for the one that makes it."""
    turns = {firing.events[at].turn for at in firing.owner}
    whole = [turn for turn in turns if all(event.position in firing.owner for event in _turn(firing, turn))]
    return max(len(whole) - 1, 0)


def _turn(firing: Firing, turn: int) -> list:  # type: ignore[type-arg]
    at = next(at for at in firing.owner if firing.events[at].turn == turn)
    first = at
    while first and firing.events[first - 1].turn == turn:
        first -= 1
    last = at
    while last + 1 < len(firing.events) and firing.events[last + 1].turn == turn:
        last += 1
    return firing.events[first : last + 1]


def _trees(found: Sequence[Trace], settings: MiningSettings) -> tuple[list[Tree], list[Tree]]:
    """Grow a tree from every reading tool that enough tasks use."""
    tasks: dict[str, set[str]] = {}
    for trace in found:
        for event in trace.events:
            if event.ok and event.effect == "read" and event.arguments:
                tasks.setdefault(event.tool, set()).add(trace.task)
    grown: list[Tree] = []
    bare: list[Tree] = []
    for tool in sorted(tasks):
        if len(tasks[tool]) >= settings.min_tasks:
            tree = grow(tool, found, settings)
            (grown if tree.growths else bare).append(tree)
    return grown, bare


def _useful(tree: Tree) -> list[Firing]:
    return [firing for firing in tree.firings if len(firing.owner) > 1]


def _without_parts(trees: Sequence[Tree]) -> list[Tree]:
    """Leave out trees that happen inside larger ones, and order the rest by what they save."""
    value = {id(tree): sum(saved(firing) for firing in _useful(tree)) for tree in trees}
    ranked = sorted(trees, key=lambda tree: (-value[id(tree)], tree.tool))
    kept: list[Tree] = []
    for tree in ranked:
        useful = _useful(tree)
        if not value[id(tree)]:
            continue
        inside = any(
            sum((f.trace.order, f.root) in _covered(other) for f in useful) >= COVERED * len(useful)
            and {g.tool for g in tree.growths} <= {g.tool for g in other.growths}
            for other in kept
        )
        if not inside:
            kept.append(tree)
    return kept


def _covered(tree: Tree) -> set[tuple[str, int]]:
    return {(firing.trace.order, at) for firing in tree.firings for at in firing.owner if at != firing.root}


def _pattern(project: str, tree: Tree, settings: MiningSettings) -> Pattern:
    plan = plan_of(tree, settings)
    useful = _useful(tree)
    support = Support(
        sessions=len({firing.trace.order for firing in useful}),
        tasks=len({firing.trace.task for firing in useful}),
        calls=len(useful),
    )
    evidence = sorted({page for node in plan.nodes for page in node.evidence})
    return Pattern(
        id=plan_id(project, plan),
        title=title_of(plan),
        project=project,
        plan=plan,
        support=support,
        evidence=evidence,
        turns_saved=round(sum(saved(firing) for firing in useful) / len(useful), 4),
    )


def title_of(plan: Plan) -> str:
    """Say in one line what a plan does."""
    first, *rest = (node.name.replace("_", " ") for node in plan.nodes)
    return f"{first}, with {' and '.join(rest)}" if rest else first


def _abstentions(
    project: str, found: Sequence[Trace], kept: Sequence[Tree], turned_down: Sequence[Tree]
) -> list[tuple[int, Abstention]]:
    """Say why tools that recur became no skill; one line for a project in which nothing recurs at all."""
    said: list[tuple[int, Abstention]] = []
    for tree in turned_down:
        best = max(tree.rejections, key=lambda r: (r.tasks, r.tool), default=None)
        tasks = len({firing.trace.task for firing in tree.firings})
        if best is None:
            reason = "no later call takes an argument from its result"
        else:
            reason = f"best follow-up {best.tool}: {best.reason}"
        what = f"{tree.tool} ({project}), {len(tree.firings)} calls in {tasks} tasks"
        said.append((best.tasks if best else 0, Abstention(what=what, reason=reason)))
    if not kept and not turned_down:
        sessions = len(found)
        reason = "no reading tool with arguments succeeded in enough distinct tasks"
        said.append((0, Abstention(what=f"{project}, {sessions} sessions", reason=reason)))
    return said
