"""Finds recurring dataflow trees of tool calls in recorded sessions.

A tree starts at a read-only call whose arguments become parameters. A follow-up belongs to it when every argument is
an argument of the first call, a value in an earlier result of the tree, a constant, or at most one new parameter.
Order, optional steps and parallel calls do not matter. Support is counted in distinct tasks, every binding is
compared with the results of other tasks, and what is too thin is said instead of proposed.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from instar.engine.compiler.candidates import Candidate, candidates
from instar.engine.compiler.effects import CODING_AGENT_READS
from instar.engine.compiler.firing import firing_rule
from instar.engine.compiler.firings import Tree
from instar.engine.compiler.index import Trace, traces
from instar.engine.compiler.settings import DEFAULTS, MiningSettings
from instar.engine.compiler.tree import grow
from instar.engine.compiler.uses import batch_node
from instar.engine.documents import Abstention, Pattern
from instar.engine.plan import FromParameter, Plan, Support
from instar.engine.session import Session


@dataclass(frozen=True, slots=True)
class Mined:
    """What recurs, best first, and what was looked at and not believed, most interesting first."""

    patterns: tuple[Pattern, ...]
    abstentions: tuple[Abstention, ...]


def mine(sessions: Sequence[Session], settings: MiningSettings = DEFAULTS) -> Mined:
    """Mine every project for itself. Deterministic; neither the order of sessions nor other projects matter."""
    patterns: list[Pattern] = []
    abstentions: list[tuple[int, Abstention]] = []
    thin: list[Sequence[Trace]] = []
    for project, found in traces(sessions, settings.effects, settings.window_steps).items():
        if len(found) < settings.min_sessions or len({trace.task for trace in found}) < settings.min_tasks:
            thin.append(found)
            continue
        trees, turned_down = _trees(found, settings)
        kept = candidates(trees, found, settings)[: settings.max_patterns]
        patterns += [_pattern(project, candidate, found) for candidate in kept]
        abstentions += _abstentions(project, found, kept, turned_down)
    abstentions += _thin_projects(thin, settings)
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


def mine_again(plan: Plan, found: Sequence[Trace], settings: MiningSettings) -> Plan | None:
    """Mine traces of one project for what calls the tools of a plan; return the plan that does the same job, if any.

    That is the most valuable one that begins with the same required tool. It carries no firing rule.
    """
    tools = {node.tool for node in plan.nodes}
    trees, _ = _trees(found, settings, tools)
    main = _main_tool(plan)
    batch = batch_node(plan) is not None
    for candidate in candidates(trees, found if batch else (), settings):
        if _main_tool(candidate.plan) == main and (batch_node(candidate.plan) is not None) == batch:
            return candidate.plan
    return None


def _main_tool(plan: Plan) -> str:
    return next((node for node in plan.nodes if not node.optional), plan.nodes[0]).tool


def _trees(
    found: Sequence[Trace], settings: MiningSettings, only: Collection[str] | None = None
) -> tuple[list[Tree], list[Tree]]:
    """Grow a tree from every reading tool that enough tasks use; return all, and those on which nothing grew."""
    tasks: dict[str, set[str]] = {}
    for trace in found:
        for event in trace.events:
            if event.ok and event.effect == "read" and event.arguments and event.tool not in CODING_AGENT_READS:
                tasks.setdefault(event.tool, set()).add(trace.task)
    grown: list[Tree] = []
    bare: list[Tree] = []
    for tool in sorted(tasks if only is None else tasks.keys() & only):
        if len(tasks[tool]) >= settings.min_tasks:
            tree = grow(tool, found, settings)
            grown.append(tree)
            if not tree.growths:
                bare.append(tree)
    return grown, bare


def _pattern(project: str, candidate: Candidate, found: Sequence[Trace]) -> Pattern:
    uses = candidate.uses
    plan = candidate.plan.model_copy(update={"firing": firing_rule(candidate.plan, found)})
    return Pattern(
        id=plan_id(project, plan),
        title=title_of(plan),
        project=project,
        plan=plan,
        support=Support(
            sessions=len({use.trace.order for use in uses}),
            tasks=len({use.trace.task for use in uses}),
            calls=len(uses),
        ),
        evidence=sorted({page for node in plan.nodes for page in node.evidence}),
        turns_saved=round(candidate.value / len(uses), 4),
    )


def title_of(plan: Plan) -> str:
    """Say in one line what a plan does: what it reads first, by which ways, and what it then fetches."""
    at = next((i for i, node in enumerate(plan.nodes) if not node.optional), 0)
    ways = " or ".join(node.name.replace("_", " ") for node in plan.nodes[:at])
    first, *rest = (node.name.replace("_", " ") for node in plan.nodes[at:])
    listed = any(isinstance(b, FromParameter) and b.path for b in plan.nodes[at].arguments.values())
    title = f"several {first}" if listed else f"{first} from {ways}" if ways else first
    return f"{title}, with {' and '.join(rest)}" if rest else title


def _abstentions(
    project: str, found: Sequence[Trace], kept: Sequence[Candidate], turned_down: Sequence[Tree]
) -> list[tuple[int, Abstention]]:
    """Say why tools that recur became no skill; one line for a project in which none does."""
    said: list[tuple[int, Abstention]] = []
    used = {tool for candidate in kept for tool in candidate.tools}
    for tree in turned_down:
        if tree.tool in used:
            continue
        best = max(tree.rejections, key=lambda r: (r.tasks, r.tool), default=None)
        tasks = len({firing.trace.task for firing in tree.firings})
        if best is None:
            reason = "no later call takes an argument from its result"
        else:
            reason = f"best follow-up {best.tool}: {best.reason}"
        what = f"{tree.tool} ({project}), {len(tree.firings)} calls in {tasks} tasks"
        said.append((best.tasks if best else 0, Abstention(what=what, reason=reason)))
    if not kept and not said:
        calls = Counter(event.tool for trace in found for event in trace.events)
        changing = sum(event.effect == "write" for trace in found for event in trace.events)
        often = ", ".join(f"{tool} {count}" for tool, count in sorted(calls.items(), key=lambda c: (-c[1], c[0]))[:3])
        reason = f"no tool that only reads recurs; {changing} of {calls.total()} calls may change things ({often})"
        said.append((0, Abstention(what=f"{project or 'no project'}, {len(found)} sessions", reason=reason)))
    return said


def _thin_projects(thin: Sequence[Sequence[Trace]], settings: MiningSettings) -> list[tuple[int, Abstention]]:
    """One line for all projects that are too small for anything to recur in."""
    if not thin:
        return []
    reason = f"each has fewer than {settings.min_sessions} sessions or {settings.min_tasks} tasks"
    what = f"{len(thin)} projects with {sum(map(len, thin))} sessions in all"
    return [(0, Abstention(what=what, reason=reason))]
