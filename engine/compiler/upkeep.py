"""How existing skills fare: used, failing, passed over; and which of them should go or become one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from instar.engine.compiler.identity import identified
from instar.engine.compiler.lessons import task_of
from instar.engine.compiler.plans import axes_of
from instar.engine.compiler.shell import command_text
from instar.engine.compiler.uses import entries
from instar.engine.compiler.wording import listed
from instar.engine.documents import Catalogue, CatalogueEntry, Proposal, ProposalAction, SkillUse
from instar.engine.plan import Plan, Support
from instar.engine.session import ResultStatus, Session, ToolCall

MIN_USES = 5
"""Uses below which failures say nothing yet."""
MIN_WINDOW = 30
"""Sessions without any use or occasion after which a skill counts as no longer needed."""
CITED = 20

_RUN = re.compile(r"\binstar\s+skills\s+run\s+([a-z0-9-]{1,64})")


@dataclass(slots=True)
class _Seen:
    uses: list[tuple[Session, ToolCall]] = field(default_factory=list)
    failed: list[tuple[Session, ToolCall]] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)


def skill_named(call: ToolCall) -> str:
    """The skill that a call runs: through a host's skill tool, or through the command; empty if none."""
    text = command_text(call)
    if text is not None:
        found = _RUN.search(text)
        return found[1] if found else ""
    if "skill" in call.tool.lower():
        for key in ("name", "skill", "skill_name", "command"):
            value = call.arguments.get(key)
            if isinstance(value, str):
                return value
    return ""


def upkeep(sessions: Sequence[Session], catalogue: Catalogue) -> tuple[list[SkillUse], list[Proposal]]:
    """What became of our own skills in these sessions, and which of them should be retired."""
    own = [entry for entry in catalogue.entries if entry.own]
    seen = {entry.name: _Seen() for entry in own}
    first = {entry.name: {node.tool for node in entries(entry.plan)} if entry.plan else set() for entry in own}
    for session in sessions:
        called: set[str] = set()
        used: set[str] = set()
        for call, result in session.exchanges():
            called.add(call.tool)
            name = skill_named(call)
            if name in seen:
                used.add(name)
                seen[name].uses.append((session, call))
                if result is not None and result.status is ResultStatus.ERROR:
                    seen[name].failed.append((session, call))
        for name, tools in first.items():
            if tools & called and name not in used:
                seen[name].missed.append(session.page_id)
    uses = [
        SkillUse(skill=name, uses=len(found.uses), failed=len(found.failed), missed=len(found.missed))
        for name, found in sorted(seen.items())
    ]
    retired = [proposal for entry in own for proposal in _retire(entry, seen[entry.name], sessions, own)]
    return uses, retired


def covers(larger: Plan, smaller: Plan) -> bool:
    """Whether one plan begins in every way the other does, and makes all of its calls and more."""
    if {node.tool for node in entries(smaller)} - {node.tool for node in entries(larger)}:
        return False
    return _calls(smaller) < _calls(larger)


def _calls(plan: Plan) -> set[tuple[str, bool]]:
    axes = axes_of(plan)
    return {(node.tool, bool(axes[node.name])) for node in plan.nodes}


def _evidence(entry: CatalogueEntry) -> list[str]:
    """What the skill was once mined from."""
    nodes = entry.plan.nodes if entry.plan else []
    return list(dict.fromkeys(page for node in nodes for page in node.evidence))


def _further(larger: Plan | None, smaller: Plan | None) -> str:
    """The tools that only the larger plan calls, or the ones that it calls in another way."""
    if larger is None or smaller is None:
        return ""
    more = {tool for tool, _ in _calls(larger)} - {tool for tool, _ in _calls(smaller)}
    return listed(sorted(more or {tool for tool, _ in _calls(larger) - _calls(smaller)}))


def _retire(
    entry: CatalogueEntry, seen: _Seen, sessions: Sequence[Session], own: Sequence[CatalogueEntry]
) -> list[Proposal]:
    by = next(
        (
            other.name
            for other in own
            if other.plan is not None and entry.plan is not None and covers(other.plan, entry.plan)
        ),
        "",
    )
    against = [f"{len(seen.uses) - len(seen.failed)} of its {len(seen.uses)} uses in this window worked."]
    if len(seen.uses) >= MIN_USES and 2 * len(seen.failed) > len(seen.uses):
        why = f"it failed in {len(seen.failed)} of {len(seen.uses)} uses"
        evidence = [session.evidence_id(call.index) for session, call in seen.failed]
    elif by and not seen.uses:
        why = f"{by} does the same and more, and it was not used"
        evidence = _evidence(entry)
        larger = next(other.plan for other in own if other.name == by)
        against = [f"{by} makes further calls, which not everybody needs: {_further(larger, entry.plan)}."]
    elif entry.plan is not None and not seen.uses and not seen.missed and len(sessions) >= MIN_WINDOW:
        why = f"in {len(sessions)} sessions it was not used once, and nobody made its first call"
        evidence = [session.evidence_id(session.steps[0].index) for session in sessions if session.steps]
        tasks = len({task_of(session) for session in sessions})
        against = [f"What is rare may come back: the window holds {len(sessions)} sessions of {tasks} tasks."]
    else:
        return []
    if seen.missed:
        against.append(f"{len(seen.missed)} sessions made its first call by hand: it may only be badly described.")
    users = {session.page_id: session for session, _ in seen.uses}
    proposal = Proposal(
        id="",
        action=ProposalAction.RETIRE,
        skill=entry.name,
        title=f"Retire {entry.name}",
        summary=f"{entry.name} {entry.version} should go: {why}.",
        support=Support(
            sessions=len(users), tasks=len({task_of(session) for session in users.values()}), calls=len(seen.uses)
        ),
        evidence=evidence[:CITED],
        expected_turns_saved=0,
        against=against,
    )
    return [identified(proposal, "proposal")]
