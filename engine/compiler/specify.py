"""The requirement of a proposal: all that a person needs to decide, and that `write` needs to write."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from instar.engine.compiler.cases import TaskCase, cases_for
from instar.engine.compiler.effects import effect_of
from instar.engine.compiler.emit import input_schema, output_schema
from instar.engine.compiler.errors import CallFailed, CompilerError, Unspecifiable
from instar.engine.compiler.folds import fold_plans
from instar.engine.compiler.need import Need, need_of
from instar.engine.compiler.plans import axes_of, references
from instar.engine.compiler.pseudonyms import Pseudonyms
from instar.engine.compiler.replay import execute
from instar.engine.compiler.requests import topics
from instar.engine.compiler.settings import MiningSettings
from instar.engine.compiler.values import canonical
from instar.engine.compiler.wording import inputs_of, listed, spoken, subjects
from instar.engine.documents import FromConstant, FromResult, Pattern, Plan, Prd, Proposal, ToolNeed, Window
from instar.engine.session import Session, ToolSchema
from instar.skills.cases import Case

MAX_CASES = 8
MAX_CASE_BYTES = 60_000
"""A case larger than this is left out: a reviewer reads the package."""


@dataclass(frozen=True, slots=True)
class _Subject:
    proposal: Proposal
    plan: Plan
    sessions: Sequence[Session]
    need: Need


def specify(proposal: Proposal, window: Window, mining: MiningSettings) -> Prd:
    """Write the requirement. Deterministic: the same proposal and window give the same page.

    Raises:
        Unspecifiable: the proposal has no plan, or no recorded use of it can be replayed in this window.
    """
    if proposal.plan is None:
        raise Unspecifiable(proposal.skill, "the proposal carries no plan")
    plan = proposal.plan
    sessions = [session for session in window.sessions if session.project == proposal.project]
    pattern = Pattern(
        id=proposal.id,
        title=proposal.title,
        project=proposal.project,
        plan=plan,
        support=proposal.support,
        evidence=proposal.evidence,
        turns_saved=proposal.expected_turns_saved / max(proposal.support.calls, 1),
    )
    subject = _Subject(proposal, plan, sessions, need_of(pattern, sessions))
    chosen = diverse(cases_for(plan, sessions, mining.effects))
    acceptance = pseudonymised(plan, [found.case for found in chosen], sessions, salt=proposal.id)
    if not acceptance:
        raise Unspecifiable(proposal.skill, "no recorded use of the plan can be replayed in full")
    prd = Prd(
        id="",
        proposal=proposal.id,
        skill=proposal.skill,
        title=proposal.title,
        purpose=_purpose(subject),
        when_to_use=_when_to_use(subject),
        when_not_to_use=_when_not_to_use(subject),
        input_schema=input_schema(plan),
        output_schema=output_schema(plan),
        tools=_tools(subject),
        acceptance=acceptance,
        expected_benefit=_benefit(subject),
        risks=_risks(subject),
        open_questions=_questions(subject, chosen),
        evidence=list(dict.fromkeys([*proposal.evidence, *(page for found in chosen for page in found.evidence)]))[
            :60
        ],
        memories=proposal.memories,
        plan=plan,
        folds=fold_plans(pattern, sessions, mining),
        support=proposal.support,
        confidence=round(subject.need.share, 4),
    )
    digest = hashlib.sha256(json.dumps(prd.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()
    return prd.model_copy(update={"id": f"prd-{digest[:16]}"})


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


def _purpose(subject: _Subject) -> str:
    nouns = subjects(subject.plan)
    tools = list(dict.fromkeys(node.tool for node in subject.plan.nodes))
    return (
        f"Fetch {listed(nouns or [subject.proposal.title])} in one call instead of calling {listed(tools)} one after "
        f"the other. It saves {_per_use(subject):.1f} turns per use."
    )


def _per_use(subject: _Subject) -> float:
    return subject.proposal.expected_turns_saved / max(subject.proposal.support.calls, 1)


def _when_to_use(subject: _Subject) -> list[str]:
    nouns = subjects(subject.plan)
    inputs = inputs_of(subject.plan)
    needed = listed([f"the {noun}" for noun in nouns[1:] or nouns])
    shown = {
        page.rsplit(".", 1)[0] for node in subject.plan.nodes[1:] or subject.plan.nodes for page in node.evidence
    }
    asked = topics([session for session in subject.sessions if session.page_id in shown])
    about = f" ({', '.join(asked)})" if asked else ""
    found = [f"A request{about} gives {inputs}, and needs {needed} as well"]
    found += [
        f"Before the first {node.tool}, when the answer depends on more than one of them"
        for node in subject.plan.nodes
        if axes_of(subject.plan)[node.name]
    ]
    return found


def _when_not_to_use(subject: _Subject) -> list[str]:
    nouns = subjects(subject.plan)
    found = [f"Only the {nouns[0]} is needed: call {subject.plan.nodes[0].tool} alone"] if len(nouns) > 1 else []
    loops = [node for node in subject.plan.nodes if axes_of(subject.plan)[node.name]]
    found += [f"The one that is meant is already known: call {node.tool} for it alone" for node in loops]
    return [*found, "Something was changed since the last use and the old result would do: results are not kept"]


def _tools(subject: _Subject) -> list[ToolNeed]:
    schemas: dict[str, ToolSchema] = {}
    for session in subject.sessions:
        for schema in session.tools:
            schemas.setdefault(schema.name, schema)
    axes = axes_of(subject.plan)
    needs: dict[str, ToolNeed] = {}
    for node in subject.plan.nodes:
        known = schemas.get(node.tool)
        often = "once for each item" if axes[node.name] else "at most once" if node.optional else "once"
        seen = f"seen in {node.support.sessions} sessions of {node.support.tasks} tasks"
        needs.setdefault(
            node.tool,
            ToolNeed(
                name=node.tool,
                why=f"gives {spoken(node.name)}, called {often}; {seen}",
                effect=effect_of(node.tool, known),
                parameters=known.parameters if known else {},
            ),
        )
    return list(needs.values())


def _benefit(subject: _Subject) -> str:
    need, proposal = subject.need, subject.proposal
    low, high = need.interval
    return (
        f"{proposal.expected_turns_saved:.0f} turns over {proposal.support.calls} uses in this window, "
        f"{_per_use(subject):.1f} per use. Of {need.opportunities} sessions that called "
        f"{subject.plan.nodes[0].tool}, {need.needed} went on to what this skill fetches: {need.share:.0%}, with a "
        f"95 % interval of {low:.0%} to {high:.0%}. In the others it would fetch more than was needed."
    )


def _risks(subject: _Subject) -> list[str]:
    risks = list(subject.proposal.against)
    if any(axes_of(subject.plan)[node.name] for node in subject.plan.nodes):
        risks.append("It makes one call for each item: a long list means many calls.")
    writes = [need.name for need in _tools(subject) if need.effect == "write"]
    if writes:
        risks.append(f"{listed(writes)} may change something.")
    risks.append("What a tool answers is passed on as it is; whoever writes that data can put text before the agent.")
    return risks


def _questions(subject: _Subject, chosen: Sequence[TaskCase]) -> list[str]:
    found: list[str] = []
    low, high = subject.need.interval
    if low < 0.5 < high:
        found.append(
            "Whether to use it at every first call: the evidence does not tell whether most uses are needed."
        )
    if all(item.case.raises is None for item in chosen):
        found.append("What happens when the first call fails was not recorded; the error is passed on.")
    if not any(session.tools for session in subject.sessions):
        found.append("The tools' schemas were not recorded: types come from the values seen.")
    return found
