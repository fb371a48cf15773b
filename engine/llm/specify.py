"""A requirement in the words of a model, and cases that are recorded uses.

Some tasks are set aside before anything is written. Who writes the requirement and the program never sees them: their
uses are told session by session by another role that knows the interface only, and become the hold-outs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from instar.engine.compiler.cases import TaskCase
from instar.engine.compiler.effects import effect_of
from instar.engine.compiler.identity import identified
from instar.engine.compiler.lessons import task_of
from instar.engine.compiler.plans import identifier
from instar.engine.compiler.pseudonyms import Pseudonyms
from instar.engine.compiler.reach import reach_of
from instar.engine.documents import AgentText, FoldPlan, Prd, Proposal, ToolNeed, Window
from instar.engine.llm.asker import Asker
from instar.engine.llm.errors import Unusable
from instar.engine.llm.excerpts import excerpt
from instar.engine.llm.grants import Grants
from instar.engine.llm.reflect import HOSTED, words_of
from instar.engine.llm.shapes import Specified
from instar.engine.llm.uses import recorded_use
from instar.engine.llm.wording import Words, fit
from instar.engine.session import Session, ToolSchema
from instar.sandbox.encodings import BASE64
from instar.sandbox.reach import BUILT_IN, out_of_reach, parameters_of
from instar.skills.cases import Case

PROMPT = "model_specify.md.j2"
SHOWN = 8
"""Sessions that are shown to who writes."""
MAX_CASES = 8
MAX_HELD_OUT = 6
MIN_CASES = 2
HELD_OUT = 3
"""One task in so many is set aside, at least one."""
EVIDENCE = 60
AS_RECORDED = "Its cases hold documents as they were recorded, names included: they travel with the skill."


@dataclass(frozen=True, slots=True)
class Split:
    """The sessions of a proposal: those that may be learned from, and those of the tasks that were set aside."""

    learned: list[Session]
    held_out: list[Session]

    @classmethod
    def of(cls, proposal: Proposal, window: Window) -> Split:
        """Split by task, the same way whenever it is asked."""
        cited = {page.rsplit(".", 1)[0] for page in proposal.evidence}
        sessions = sorted((s for s in window.sessions if s.page_id in cited), key=lambda s: s.page_id)
        tasks = sorted({task_of(session) for session in sessions}, key=lambda task: _rank(proposal.id, task))
        aside = set(tasks[: max(1, len(tasks) // HELD_OUT)])
        return cls([s for s in sessions if task_of(s) not in aside], [s for s in sessions if task_of(s) in aside])


@dataclass(frozen=True, slots=True)
class _Interface:
    inputs: dict[str, JsonValue]
    output: dict[str, JsonValue]
    tools: list[ToolNeed]

    def text(self, purpose: str) -> str:
        tools = ", ".join(tool.name for tool in self.tools) or "none"
        return f"{purpose}\ninputs: {json.dumps(self.inputs)}\nreturns: {json.dumps(self.output)}\ntools: {tools}"


def specify(asker: Asker, proposal: Proposal, window: Window, grants: Grants) -> Prd:
    """The requirement of a proposal without a plan.

    Raises:
        Unusable: what the model wrote is not about the tasks, or too few recorded uses could be proven.
        ModelError: the model could not be asked.
    """
    split = Split.of(proposal, window)
    if not split.learned:
        raise Unusable("specify", "the window", "the sessions that the proposal cites are not in it")
    written = _asked(asker, proposal, split, grants)
    known = words_of([*split.learned, *split.held_out])
    english = _agent_text(written, known)
    interface = _interface(written, split, english)
    cases = _uses(asker, split.learned, interface.text(english.purpose), interface, MAX_CASES)
    held_out = _uses(asker, split.held_out, interface.text(english.purpose), interface, MAX_HELD_OUT)
    if len(cases) < MIN_CASES or not held_out:
        reason = f"only {len(cases)} recorded uses to learn from and {len(held_out)} held out could be proven"
        raise Unusable("judge", asker.model("judge").name, reason)
    shown = [item.case for item in (*cases, *held_out)]
    tools = _as_used(interface.tools, shown)
    opaque = any(call.arguments.get("encoding") == BASE64 for case in shown for call in case.calls)
    if not opaque:
        pseudonyms = Pseudonyms(salt=proposal.id, sessions=[*split.learned, *split.held_out])
        shown = pseudonyms.cases(shown)
    shown = [case.model_copy(update={"name": f"case-{number}"}) for number, case in enumerate(shown, start=1)]
    told = english if asker.language == "en" else _told(asker, proposal, split, grants)
    risks, _ = fit(written.risks, known, "en", most=6)
    questions, _ = fit(written.open_questions, known, "en", most=6)
    tasks = {item.task for item in (*cases, *held_out)}
    prd = Prd(
        id="",
        proposal=proposal.id,
        skill=proposal.skill,
        title=proposal.title,
        purpose=told.purpose,
        when_to_use=told.when_to_use,
        when_not_to_use=told.when_not_to_use,
        input_schema=interface.inputs,
        output_schema=interface.output,
        tools=tools,
        wheels=grants.shelf.with_needs(written.wheels),
        acceptance=shown[: len(cases)],
        expected_benefit=(
            f"{proposal.expected_turns_saved:g} turns over {proposal.support.sessions} sessions of this window, as "
            f"far as their turns show; in {len(tasks)} of {proposal.support.tasks} tasks a use could be proven."
        ),
        risks=[*proposal.against, *risks, *([AS_RECORDED] if opaque else [])],
        open_questions=questions,
        evidence=list(
            dict.fromkeys([*proposal.evidence, *(page for item in (*cases, *held_out) for page in item.evidence)])
        )[:EVIDENCE],
        memories=proposal.memories,
        plan=None,
        folds=[
            FoldPlan(task=item.task, plan=None, cases=[case])
            for item, case in zip(held_out, shown[len(cases) :], strict=True)
        ],
        support=proposal.support,
        confidence=round(min(len(tasks) / max(proposal.support.tasks, 1), 1.0), 4),
        language=asker.language,
        for_agent=None if asker.language == "en" else english,
        made_by=asker.made_by("specify", PROMPT),
    )
    return identified(prd, "prd")


def _asked(asker: Asker, proposal: Proposal, split: Split, grants: Grants, language: str = "en") -> Specified:
    chosen = split.learned[:SHOWN]
    each = max(asker.room("specify", PROMPT) // (len(chosen) + 1), 200)
    shown = "\n\n".join(f"session [{n}]\n{excerpt(s, each).text}" for n, s in enumerate(chosen, start=1))
    schemas = _schemas(split.learned)
    tools = [
        f"{name}: {json.dumps(_parameters(name, schemas))[:600] or 'schema not recorded'}"
        for name in _callable(split.learned)
    ]
    return asker.ask(
        "specify",
        PROMPT,
        Specified,
        document=proposal.id,
        language="zh" if language == "zh" else "en",
        proposal=f"{proposal.skill}: {proposal.title}\n{proposal.summary}",
        tools="\n".join(tools) or "none",
        wheels=grants.wheels_in_words(),
        sessions=shown,
    )


def _told(asker: Asker, proposal: Proposal, split: Split, grants: Grants) -> AgentText:
    """The same in the language of who decides; it stands before people only."""
    written = _asked(asker, proposal, split, grants, "zh")
    return AgentText(
        purpose=written.purpose,
        when_to_use=list(written.when_to_use),
        when_not_to_use=list(written.when_not_to_use),
        tools={},
    )


def _agent_text(written: Specified, known: Words) -> AgentText:
    """What an agent will read, less what only one stranger said; without a purpose and a situation there is no skill.

    Raises:
        Unusable: nothing is left of one of them.
    """
    purpose, why_not = fit([written.purpose], known, "en", most=1)
    use, why_no_use = fit(written.when_to_use, known, "en", most=5)
    if not purpose or not use:
        raise Unusable("specify", "its requirement", "; ".join([*why_not, *why_no_use])[:200])
    avoid, _ = fit(written.when_not_to_use, known, "en", most=5)
    return AgentText(purpose=purpose[0], when_to_use=use, when_not_to_use=avoid, tools={})


def _interface(written: Specified, split: Split, english: AgentText) -> _Interface:
    """Inputs that can be parameters, and of the tools those that these sessions called in two tasks or more."""
    known = words_of([*split.learned, *split.held_out])
    properties: dict[str, JsonValue] = {}
    required: list[JsonValue] = []
    for item in written.inputs:
        if not identifier(item.name) or item.name in properties:
            raise Unusable("specify", "its requirement", "an input cannot be a Python parameter")
        meaning, _ = fit([item.meaning], known, "en", most=1)
        properties[item.name] = {
            "type": item.type,
            "description": meaning[0] if meaning else f"The {item.name.replace('_', ' ')}.",
        }
        if item.required:
            required.append(item.name)
    schemas = _schemas(split.learned)
    allowed = _callable(split.learned)
    tools: list[ToolNeed] = []
    for tool in written.tools:
        if tool.name not in allowed or any(tool.name == known_tool.name for known_tool in tools):
            continue
        reach = reach_of(tool.name, split.learned)
        if tool.name in BUILT_IN and not reach:
            continue
        why, _ = fit([tool.why], known, "en", most=1)
        english.tools[tool.name] = why[0] if why else f"called for this in {allowed[tool.name]} tasks"
        tools.append(
            ToolNeed(
                name=tool.name,
                why=english.tools[tool.name],
                effect=effect_of(tool.name, schemas.get(tool.name)),
                parameters=_parameters(tool.name, schemas),
                reach=reach,
            )
        )
    meaning, _ = fit([written.output_meaning], known, "en", most=1)
    return _Interface(
        inputs={
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        },
        output={"type": written.output_type, "description": meaning[0] if meaning else "What the job asks for."},
        tools=tools,
    )


def _callable(sessions: Sequence[Session]) -> dict[str, int]:
    """The tools that two tasks or more called with an answer, and how many did; not those of a host."""
    tasks: dict[str, set[tuple[str, str]]] = {}
    for session in sessions:
        for call, result in session.exchanges():
            if result is not None and call.tool not in HOSTED:
                tasks.setdefault(call.tool, set()).add(task_of(session))
    return {tool: len(seen) for tool, seen in sorted(tasks.items()) if len(seen) > 1}


def _as_used(tools: Sequence[ToolNeed], cases: Sequence[Case]) -> list[ToolNeed]:
    """The tools, the built-in ones no wider than the recorded uses of this very skill."""
    kept: list[ToolNeed] = []
    for tool in tools:
        calls = [call.arguments for case in cases for call in case.calls if call.tool == tool.name]
        used = [place for place in tool.reach if any(not out_of_reach(tool.name, [place], call) for call in calls)]
        if used or tool.name not in BUILT_IN:
            kept.append(tool.model_copy(update={"reach": used}))
    return kept


def _parameters(tool: str, schemas: Mapping[str, ToolSchema]) -> dict[str, JsonValue]:
    """The schema of a built-in tool is ours, whatever was recorded."""
    if tool in BUILT_IN:
        return parameters_of(tool)
    return schemas[tool].parameters if tool in schemas else {}


def _schemas(sessions: Sequence[Session]) -> dict[str, ToolSchema]:
    found: dict[str, ToolSchema] = {}
    for session in sessions:
        for schema in session.tools:
            found.setdefault(schema.name, schema)
    return found


def _uses(asker: Asker, sessions: Sequence[Session], text: str, interface: _Interface, most: int) -> list[TaskCase]:
    found: list[TaskCase] = []
    tasks: set[str] = set()
    for session in sessions:
        if len(found) == most:
            break
        if session.task in tasks:
            continue
        schemas = (interface.inputs, {k: v for k, v in interface.output.items() if k != "description"})
        use = recorded_use(asker, session, text, schemas, interface.tools)
        if use is not None:
            found.append(use)
            tasks.add(session.task)
    return found


def _rank(salt: str, task: tuple[str, str]) -> str:
    return hashlib.sha256("\0".join([salt, *task]).encode()).hexdigest()
