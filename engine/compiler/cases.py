"""Recorded uses of a plan: what the agent asked and was answered, replayed by the plan, with what must come back."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pydantic import JsonValue

from instar.engine.compiler.effects import Effect
from instar.engine.compiler.errors import CallFailed, CompilerError, NothingGiven, Unrecorded, ValueAbsent
from instar.engine.compiler.index import Event, trace
from instar.engine.compiler.replay import Program
from instar.engine.compiler.uses import Answers, batch_node, entries, error_text, replays
from instar.engine.compiler.values import canonical
from instar.engine.plan import Plan
from instar.engine.session import Session, ToolCall
from instar.skills.cases import Case, RecordedCall

MAX_SESSIONS = 800
MAX_BOUNDED = 2
"""Cases with bounded loops, for each set of parameters given."""


@dataclass(frozen=True, slots=True)
class TaskCase:
    """A case, the task it was recorded in, and the evidence pages of the calls and results it is made of."""

    task: str
    case: Case
    evidence: tuple[str, ...]


def cases_for(plan: Plan, sessions: Sequence[Session], effects: Mapping[str, Effect] | None = None) -> list[TaskCase]:
    """Return a case for each recorded use of the plan whose every call the recording can answer.

    Sessions are taken in the order of their page ids, which are hashes, and at most `MAX_SESSIONS` of them. Equal
    cases of one task are kept once. A recorded error is part of a case like any answer: the plan then hands back the
    rest, or ends with it. What the recording answers only without optional follow-ups is a case without them; the
    first few uses whose loops run over more than one item are cases with the loops bounded to one.
    """
    cases: list[TaskCase] = []
    seen: set[str] = set()
    program = Program(plan)
    batch = batch_node(plan)
    tools = {node.tool for node in ([batch] if batch else entries(plan))}
    chosen = [s for s in sessions if calls_any(s, tools)]
    bounded: Counter[tuple[str, ...]] = Counter()
    for session in sorted(chosen, key=lambda s: s.page_id)[:MAX_SESSIONS]:
        found = trace(session, effects, window=0)
        for _, arguments, known in replays(program, found):
            made: list[tuple[Case, tuple[str, ...]]] = []
            whole = None
            for variant in _variants(program, arguments):
                if whole is None and (whole := _case(program, session, variant, known)):
                    made.append(whole)
                shape = tuple(sorted(variant))
                shorter = _bounded(program, variant, known) if bounded[shape] < MAX_BOUNDED else None
                if shorter and (case := _case(program, session, shorter, known)):
                    bounded[shape] += 1
                    made.append(case)
            for one, evidence in made:
                key = canonical([session.task, one.arguments, [call.model_dump() for call in one.calls]])
                if key not in seen:
                    seen.add(key)
                    named = one.model_copy(update={"name": case_name(session.task, len(cases))})
                    cases.append(TaskCase(session.task, named, evidence))
    return cases


def calls_any(session: Session, tools: Collection[str]) -> bool:
    """Whether a session calls one of the tools."""
    return any(isinstance(step, ToolCall) and step.tool in tools for step in session.steps)


def _variants(program: Program, arguments: dict[str, JsonValue]) -> list[dict[str, JsonValue]]:
    """Return the arguments as the recording suggests them, and without the switches that it turned on."""
    switches = {node.switch for node in program.plan.nodes if node.switch}
    plain = {name: value for name, value in arguments.items() if name not in switches}
    return [arguments] if plain == arguments else [arguments, plain]


def _bounded(program: Program, arguments: dict[str, JsonValue], known: Answers) -> dict[str, JsonValue] | None:
    """Return the arguments with every loop bounded to its first item, or None where that cuts nothing."""
    if not program.plan.limit:
        return None
    shorter: dict[str, JsonValue] = arguments | {program.plan.limit: 1}
    with suppress(CompilerError):
        errors = program.run(shorter, known).get("errors")
        if isinstance(errors, list) and any(isinstance(e, dict) and e["arguments"] == {} for e in errors):
            return shorter
    return None


def _case(
    program: Program, session: Session, arguments: dict[str, JsonValue], known: Answers
) -> tuple[Case, tuple[str, ...]] | None:
    made: dict[str, Event] = {}

    def call(tool: str, passed: dict[str, JsonValue]) -> JsonValue:
        key = canonical([tool, passed])
        if key in known.known:
            made[key] = known.known[key]
        return known(tool, passed)

    returns: JsonValue = None
    raises: str | None = None
    try:
        returns = program.run(arguments, call)
    except CallFailed as failure:
        raises = failure.error
    except NothingGiven as failure:
        raises = str(failure)
    except (Unrecorded, ValueAbsent):
        return None
    calls = [
        RecordedCall(tool=event.tool, arguments=event.arguments, result=event.value)
        if event.ok
        else RecordedCall(tool=event.tool, arguments=event.arguments, error=error_text(event))
        for event in made.values()
    ]
    steps = {step for event in made.values() for step in (event.step, event.result_step)}
    evidence = tuple(session.evidence_id(step) for step in sorted(steps))
    return Case(name="", arguments=arguments, calls=calls, returns=returns, raises=raises), evidence


def case_name(task: str, number: int) -> str:
    """Return a file stem for a case: what is readable of the task, a digest of all of it, a number."""
    readable = re.sub(r"[^a-z0-9]+", "-", task.lower(), flags=re.ASCII).strip("-")[:24]
    digest = hashlib.sha256(task.encode()).hexdigest()[:6]
    return "-".join(part for part in (f"task-{readable}".rstrip("-"), digest, str(number)) if part)


__all__ = ["TaskCase", "case_name", "cases_for", "entries"]
