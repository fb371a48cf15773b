"""From patterns to proposals: few, ranked, routed to the skills that exist, each with what speaks against it."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from instar.engine.compiler.acceptance import is_feasible
from instar.engine.compiler.effects import CODING_AGENT_READS, CODING_AGENT_WRITES
from instar.engine.compiler.identity import identified
from instar.engine.compiler.lessons import Cluster
from instar.engine.compiler.need import Need, need_of
from instar.engine.compiler.objections import objections
from instar.engine.compiler.phrases import ENGLISH
from instar.engine.compiler.upkeep import covers
from instar.engine.compiler.wording import listed, skill_name, subjects, title_of
from instar.engine.documents import Abstention, Catalogue, CatalogueEntry, Pattern, Proposal, ProposalAction, Window
from instar.engine.plan import Plan

EVIDENCE = 40
"""Evidence pages a proposal cites at most."""


@dataclass(frozen=True, slots=True)
class ProposalSettings:
    """How many proposals a reflection makes, and what a pattern must promise."""

    limit: int = 5
    min_turns_saved: float = 0.5
    """Turns saved per use below which a skill is not worth a review."""
    min_tasks: int = 5
    """Distinct tasks it must be seen in: one more than mining needs, so that any one can be left out and replayed."""
    min_need: float = 0.2
    """Lower bound of the share of first calls after which it was needed."""


def shape_of(plan: Plan) -> str:
    """What a plan does, without the evidence for it: equal shapes are the same program."""
    nodes = [
        [
            node.tool,
            node.optional,
            node.switch,
            {key: value.model_dump() for key, value in sorted(node.arguments.items())},
        ]
        for node in plan.nodes
    ]
    inputs = sorted(
        [parameter.name, json.dumps(parameter.json_schema, sort_keys=True)] for parameter in plan.parameters
    )
    return hashlib.sha256(json.dumps([nodes, inputs], sort_keys=True).encode()).hexdigest()


def akin(left: Plan, right: Plan) -> bool:
    """Whether two plans are versions of one skill: the same first tool, and most of the tools in common."""
    ours, theirs = {node.tool for node in left.nodes}, {node.tool for node in right.nodes}
    return left.nodes[0].tool == right.nodes[0].tool and 2 * len(ours & theirs) > len(ours | theirs)


def propose(
    patterns: Sequence[Pattern],
    clusters: Sequence[Cluster],
    window: Window,
    catalogue: Catalogue,
    settings: ProposalSettings,
) -> tuple[list[Proposal], list[Abstention]]:
    """At most `settings.limit` proposals, the most turns saved first, and why the other patterns are not among them.

    What exists is not proposed again; what exists and differs by now is to be improved under its own name.
    """
    proposals: list[Proposal] = []
    abstentions: list[Abstention] = []
    taken = {entry.name for entry in catalogue.entries}
    ranked = sorted(patterns, key=lambda pattern: (-expected_turns(pattern), pattern.id))
    for pattern in ranked:
        title = title_of(pattern.plan)
        merged = _merged(pattern.plan, catalogue)
        existing = merged[0] if merged else _existing(pattern.plan, catalogue)
        need = need_of(pattern, window.sessions)
        hosted = sorted({node.tool for node in pattern.plan.nodes} & (CODING_AGENT_READS | CODING_AGENT_WRITES))
        if hosted:
            reason = f"{listed(hosted)} belong to the agent's host; a skill cannot be given them"
        elif need.interval[0] < settings.min_need:
            reason = (
                f"needed after {need.needed} of {need.opportunities} first calls: too few to fetch it beforehand "
                f"(95 % interval from {need.interval[0]:.0%})"
            )
        elif pattern.turns_saved < settings.min_turns_saved:
            reason = f"saves {pattern.turns_saved:.1f} turns per use; {settings.min_turns_saved:g} are asked for"
        elif existing is not None and (not existing.own or _same(existing, pattern.plan)):
            where = "" if existing.own else " in the agent's host"
            reason = f"exists as {existing.name} {existing.version}{where}".rstrip()
        elif pattern.support.tasks < settings.min_tasks:
            reason = f"seen in {pattern.support.tasks} tasks; fewer than {settings.min_tasks} leave none to hold out"
        elif len(proposals) < settings.limit and not is_feasible(pattern, window.sessions):
            reason = "no recorded use can be replayed in full, so that nothing would show that it works"
        elif len(proposals) >= settings.limit:
            reason = f"{settings.limit} better ones are proposed; this would save {expected_turns(pattern):.0f} turns"
        else:
            name = existing.name if existing else skill_name(pattern.plan, taken)
            taken.add(name)
            titled = _Titled(pattern, name, title, need, existing, merged)
            proposals.append(_proposal(titled, window, objections(pattern, need, clusters, ENGLISH)))
            continue
        abstentions.append(Abstention(what=f"{title} ({pattern.project})", reason=reason))
    return proposals, abstentions


def spread(evidence: Sequence[str], limit: int) -> list[str]:
    """At most `limit` pages, of as many sessions as there are: the first of each, then the second of each."""
    rank: Counter[str] = Counter()
    placed: list[tuple[int, str]] = []
    for page in sorted(evidence):
        session = page.rsplit(".", 1)[0]
        placed.append((rank[session], page))
        rank[session] += 1
    return sorted(page for _, page in sorted(placed)[:limit])


def expected_turns(pattern: Pattern) -> float:
    """Turns that would have been saved over the window."""
    return pattern.turns_saved * pattern.support.calls


def _merged(plan: Plan, catalogue: Catalogue) -> list[CatalogueEntry]:
    """Our own skills that the plan does all of, when they are two or more: it can take the place of all."""
    found = [entry for entry in catalogue.entries if entry.own and entry.plan and covers(plan, entry.plan)]
    found.sort(key=lambda entry: (-len(entry.plan.nodes) if entry.plan else 0, entry.name))
    return found if len(found) > 1 else []


def _existing(plan: Plan, catalogue: Catalogue) -> CatalogueEntry | None:
    tools = {node.tool for node in plan.nodes}
    for entry in sorted(catalogue.entries, key=lambda entry: (not entry.own, entry.name)):
        if entry.plan is not None and (shape_of(entry.plan) == shape_of(plan) or akin(entry.plan, plan)):
            return entry
        if entry.plan is None and len(tools) > 1 and tools <= set(entry.tools):
            return entry
    return None


def _same(entry: CatalogueEntry, plan: Plan) -> bool:
    return entry.plan is None or shape_of(entry.plan) == shape_of(plan)


@dataclass(frozen=True, slots=True)
class _Titled:
    pattern: Pattern
    name: str
    title: str
    need: Need
    existing: CatalogueEntry | None
    merged: Sequence[CatalogueEntry] = ()


def _proposal(titled: _Titled, window: Window, against: list[str]) -> Proposal:
    pattern, name, existing = titled.pattern, titled.name, titled.existing
    action = ProposalAction.MERGE if titled.merged else ProposalAction.IMPROVE if existing else ProposalAction.NEW
    tools = list(dict.fromkeys(node.tool for node in pattern.plan.nodes))
    summary = ENGLISH.summary.format(
        things=listed(subjects(pattern.plan) or [titled.title]),
        tools=listed(tools),
        sessions=pattern.support.sessions,
        tasks=pattern.support.tasks,
        turns=pattern.turns_saved,
    )
    if titled.merged:
        summary = ENGLISH.merged.format(skills=listed([entry.name for entry in titled.merged]), skill=name) + summary
    elif existing:
        summary = ENGLISH.changed.format(skill=f"{existing.name} {existing.version}") + summary
    mined = {page.rsplit(".", 1)[0] for page in pattern.evidence}
    proposal = Proposal(
        id="",
        action=action,
        skill=name,
        title=titled.title,
        summary=summary,
        support=pattern.support,
        evidence=spread(pattern.evidence, EVIDENCE),
        expected_turns_saved=round(expected_turns(pattern), 2),
        against=against,
        plan=pattern.plan,
        project=pattern.project,
        memories=sorted(memory.id for memory in window.memories if memory.session in mined)[:EVIDENCE],
    )
    return identified(proposal, "proposal")
