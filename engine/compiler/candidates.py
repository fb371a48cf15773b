"""Candidates for skills within one project: trees, trees with several ways to their root, batches of known calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from instar.engine.compiler.batches import batches
from instar.engine.compiler.firings import RESULTS, ROOT, Firing, Growth, Tree
from instar.engine.compiler.index import Event, Trace
from instar.engine.compiler.planning import Way, batch_plan, plan_of
from instar.engine.compiler.settings import MiningSettings
from instar.engine.compiler.values import LOOPS, canonical
from instar.engine.plan import Plan

COVERED = 0.8
"""A candidate is left out when this share of its useful uses happens inside those of a larger one."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan and the recorded uses in which it would have made more than one of the agent's calls."""

    plan: Plan
    uses: Sequence[Firing]

    @property
    def value(self) -> int:
        """Turns saved over all uses."""
        return sum(saved(use) for use in self.uses)

    @property
    def tools(self) -> set[str]:
        """The tools that the plan calls."""
        return {node.tool for node in self.plan.nodes}


def saved(use: Firing) -> int:
    """Return the turns one call saves here: the turns all of whose calls it makes, but for the one that makes it."""
    turns = {use.events[at].turn for at in use.owner}
    whole = [turn for turn in turns if use.trace.turns[turn] <= use.owner.keys()]
    return max(len(whole) - 1, 0)


def candidates(trees: Sequence[Tree], traces: Sequence[Trace], settings: MiningSettings) -> list[Candidate]:
    """Return what is worth a skill, most turns saved first, without what happens inside something larger."""
    found = _from_trees(trees, settings) + _from_batches(traces, settings)
    ranked = sorted((c for c in found if c.value), key=lambda c: (-c.value, c.plan.nodes[0].tool))
    kept: list[tuple[Candidate, set[tuple[str, int]]]] = []
    for candidate in ranked:
        places = [(use.trace.order, use.root) for use in candidate.uses]
        inside = any(
            candidate.tools <= larger.tools and sum(place in covered for place in places) >= COVERED * len(places)
            for larger, covered in kept
        )
        if not inside:
            covered = {(use.trace.order, at) for use in candidate.uses for at in use.owner}
            kept.append((candidate, covered))
    return [candidate for candidate, _ in kept]


def _useful(tree: Tree) -> list[Firing]:
    return [firing for firing in tree.firings if len(firing.owner) > 1]


def _from_trees(trees: Sequence[Tree], settings: MiningSettings) -> list[Candidate]:
    """Merge trees that are ways to the root of another tree into that one; write the others as they are."""
    by_tool = {tree.tool: tree for tree in trees}
    ways: dict[str, list[Way]] = {}
    for tree in trees:
        for growth in tree.growths[:1]:
            if _leads_to(tree, growth, by_tool.get(growth.tool)):
                ways.setdefault(growth.tool, []).append((tree, growth))
    merged: set[str] = set()
    found: list[Candidate] = []
    for tool in sorted(ways):
        target, into = by_tool[tool], ways[tool]
        uses = {(use.trace.order, use.root): use for tree, _ in into for use in _useful(tree)}
        reached = {(f.trace.order, at) for tree, g in into for f in tree.firings for at in f.nodes.get(g.name, ())}
        direct = [firing for firing in target.firings if (firing.trace.order, firing.root) not in reached]
        given = len({firing.trace.task for firing in direct}) >= settings.min_tasks
        if not target.growths or len(into) + given < 2:
            continue
        merged |= {tool, *(tree.tool for tree, _ in into)}
        uses |= {(use.trace.order, use.root): use for use in direct if len(use.owner) > 1}
        plan = plan_of(target, settings, into, given=given)
        found.append(Candidate(plan, [uses[key] for key in sorted(uses)]))
    found += [
        Candidate(plan_of(tree, settings), _useful(tree))
        for tree in trees
        if tree.growths and tree.tool not in merged
    ]
    return found


def _leads_to(tree: Tree, growth: Growth, target: Tree | None) -> bool:
    """Whether the tree only finds the one argument that the target starts with."""
    if target is None or target is tree or len(growth.bindings) != 1:
        return False
    if any(kind == "argument" for other in target.growths for kind, _, _ in other.bindings.values()):
        return False
    (binding,) = growth.bindings.values()
    (argument,) = growth.bindings
    single = all(set(firing.events[firing.root].arguments) == {argument} for firing in target.firings)
    only = all(
        source != ROOT for other in tree.growths[1:] for kind, source, _ in other.bindings.values() if kind in RESULTS
    ) and all(kind != "argument" for other in tree.growths for kind, _, _ in other.bindings.values())
    return binding[0] == "result" and not any(step in LOOPS for step in binding[2]) and single and only


def _from_batches(traces: Sequence[Trace], settings: MiningSettings) -> list[Candidate]:
    grouped: dict[tuple[str, tuple[str, ...]], list[tuple[Trace, list[Event]]]] = {}
    for trace in traces:
        for group in batches(trace):
            key = (group[0].tool, tuple(sorted(group[0].arguments)))
            grouped.setdefault(key, []).append((trace, group))
    found = []
    for (tool, _), groups in sorted(grouped.items()):
        sessions = {trace.order for trace, _ in groups}
        tasks = {trace.task for trace, _ in groups}
        answers = {canonical(event.value) for _, group in groups for event in group}
        values = {tuple(sorted(canonical(event.arguments) for event in group)) for _, group in groups}
        if len(sessions) < settings.min_sessions or len(tasks) < settings.min_tasks:
            continue
        if min(len(answers), len(values)) < settings.min_values:
            continue
        uses = [
            Firing(trace, group[0].position, {ROOT: [e.position for e in group]}, {e.position: ROOT for e in group})
            for trace, group in groups
        ]
        if sum(map(saved, uses)) >= len(uses):
            found.append(Candidate(batch_plan(tool, groups, settings), uses))
    return found
