"""Recorded uses of a plan: what the agent asked and was answered, replayed by the plan, with what must come back."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from instar.engine.compiler.effects import Effect
from instar.engine.compiler.errors import CallFailed, Unrecorded, ValueAbsent
from instar.engine.compiler.index import Event, Trace, trace
from instar.engine.compiler.plans import defaults, references
from instar.engine.compiler.replay import execute
from instar.engine.compiler.values import canonical, same
from instar.engine.documents import FromConstant, FromParameter, Plan, PlanNode
from instar.engine.session import ResultStatus, Session
from instar.skills.cases import Case, RecordedCall


@dataclass(frozen=True, slots=True)
class TaskCase:
    """A case, the task it was recorded in, and the evidence pages of the calls and results it is made of."""

    task: str
    case: Case
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answers:
    """What a session recorded between two writes: the answer of every call, by tool and arguments."""

    known: Mapping[str, Event]

    def __call__(self, tool: str, arguments: dict[str, JsonValue]) -> JsonValue:
        """Answer as recorded.

        Raises:
            CallFailed: The recorded answer is an error.
            Unrecorded: There is none.
        """
        event = self.known.get(canonical([tool, arguments]))
        if event is None:
            raise Unrecorded(tool, arguments)
        if not event.ok:
            raise CallFailed(tool, error_text(event))
        return event.value


def error_text(event: Event) -> str:
    """Return the text of a failed call."""
    return event.error or (event.value if isinstance(event.value, str) else canonical(event.value))


def answers_around(found: Trace, position: int) -> Answers:
    """Return the answers that hold together with the call at `position`: those between the writes around it.

    A call answered in two ways in between is left out: something changed that no call shows.
    """
    end = found.events[position].end
    start = next((at + 1 for at in range(position - 1, -1, -1) if found.events[at].writes), 0)
    known: dict[str, Event] = {}
    doubtful: set[str] = set()
    for event in found.events[start:end]:
        if event.effect != "read" or event.status is None or event.status is ResultStatus.REFUSED:
            continue
        key = canonical([event.tool, event.arguments])
        first = known.setdefault(key, event)
        if first.ok != event.ok or not same(first.value, event.value):
            doubtful.add(key)
    return Answers({key: event for key, event in known.items() if key not in doubtful})


def entries(plan: Plan) -> list[PlanNode]:
    """Return the nodes a use of the plan may begin with: the root, or each of its alternatives."""
    first = plan.nodes[0]
    if not first.optional:
        return [first]
    return [
        node
        for node in plan.nodes
        if all(
            any(
                isinstance(option, FromParameter | FromConstant) and not _path(option)
                for option in references(binding)
            )
            for binding in node.arguments.values()
        )
    ]


def _path(binding: FromParameter | FromConstant) -> Sequence[str | int]:
    return binding.path if isinstance(binding, FromParameter) else ()


def arguments_from(plan: Plan, node: PlanNode, event: Event) -> dict[str, JsonValue] | None:
    """Return the plan's arguments as a recorded call of an entry node gives them, or None if it cannot be one."""
    if event.tool != node.tool or not set(event.arguments) <= set(node.arguments):
        return None
    given: dict[str, JsonValue] = {}
    for name, binding in node.arguments.items():
        if isinstance(binding, FromConstant):
            if name not in event.arguments or not same(binding.value, event.arguments[name]):
                return None
            continue
        parameter = next(option for option in references(binding) if isinstance(option, FromParameter))
        if name in event.arguments:
            if parameter.name in given and not same(given[parameter.name], event.arguments[name]):
                return None
            given[parameter.name] = event.arguments[name]
    required = {p.name for p in plan.parameters} - set(defaults(plan))
    return given if required <= set(given) else None


def replays(plan: Plan, found: Trace) -> Iterator[tuple[Event, dict[str, JsonValue], Answers]]:
    """Yield every recorded call that a use of the plan could have replaced, with the plan's arguments and answers.

    Optional parameters of later nodes take the value of the first recorded call that the plan then also makes.
    """
    for event in found.events:
        if event.status not in {ResultStatus.OK, ResultStatus.ERROR}:
            continue
        for node in entries(plan):
            given = arguments_from(plan, node, event)
            if given is None:
                continue
            known = answers_around(found, event.position)
            yield event, _with_optional(plan, node, given, known), known


def _with_optional(plan: Plan, entry: PlanNode, given: dict[str, JsonValue], known: Answers) -> dict[str, JsonValue]:
    open_to = defaults(plan)
    switches = {node.switch for node in plan.nodes if node.switch}
    for node in plan.nodes:
        own = [
            (name, option.name)
            for name, binding in node.arguments.items()
            for option in references(binding)
            if isinstance(option, FromParameter) and option.name in open_to and option.name not in given
        ]
        if node is entry or not own or node in entries(plan):
            continue
        for event in known.known.values():
            if event.tool != node.tool or not event.ok or set(event.arguments) != set(node.arguments):
                continue
            tried = given | {parameter: event.arguments[name] for name, parameter in own}
            if _makes(plan, tried, known, event):
                given = tried
                break
    for switch in sorted(switches - set(given)):
        tried = given | {switch: True}
        tools = {node.tool for node in plan.nodes if node.switch == switch}
        if any(_makes(plan, tried, known, event) for event in known.known.values() if event.tool in tools):
            given = tried
    return given


def _makes(plan: Plan, given: dict[str, JsonValue], known: Answers, event: Event) -> bool:
    """Whether the plan, so called, makes the recorded call; it may also make others that nobody recorded."""
    made: list[str] = []

    def call(tool: str, arguments: dict[str, JsonValue]) -> JsonValue:
        made.append(canonical([tool, arguments]))
        try:
            return known(tool, arguments)
        except Unrecorded:
            raise CallFailed(tool, "not recorded") from None

    try:
        execute(plan, given, call)
    except (CallFailed, ValueAbsent):
        return False
    return canonical([event.tool, event.arguments]) in made


def cases_for(plan: Plan, sessions: Sequence[Session], effects: Mapping[str, Effect] | None = None) -> list[TaskCase]:
    """Return a case for each recorded use of the plan whose every call the recording can answer.

    Sessions are taken in the order of their pages; equal cases of one task are kept once. A recorded error is part
    of a case like any answer: the plan then hands back the rest, or ends with it.
    """
    cases: list[TaskCase] = []
    seen: set[str] = set()
    tools = {node.tool for node in entries(plan)}
    chosen = [s for s in sessions if any(call.tool in tools for call, _ in s.exchanges())]
    for session in sorted(chosen, key=lambda s: s.page_id):
        found = trace(session, effects, window=0)
        for _, arguments, known in replays(plan, found):
            made = _case(plan, session, arguments, known)
            if made is None:
                continue
            key = canonical([session.task, made[0].arguments, [call.model_dump() for call in made[0].calls]])
            if key not in seen:
                seen.add(key)
                case = made[0].model_copy(update={"name": case_name(session.task, len(cases))})
                cases.append(TaskCase(session.task, case, made[1]))
    return cases


def _case(
    plan: Plan, session: Session, arguments: dict[str, JsonValue], known: Answers
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
        returns = execute(plan, arguments, call)
    except CallFailed as failure:
        raises = failure.error
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
