"""Where a recorded session could have used a plan: the arguments it would have been given, and what was answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from instar.engine.compiler.batches import known_beforehand
from instar.engine.compiler.errors import CallFailed, CompilerError, Unrecorded
from instar.engine.compiler.index import Event, Trace
from instar.engine.compiler.plans import defaults, references
from instar.engine.compiler.replay import Program
from instar.engine.compiler.values import canonical, same
from instar.engine.plan import FromConstant, FromParameter, Plan, PlanNode
from instar.engine.session import ResultStatus


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
    if None in event.arguments.values():  # null says "not given" to a plan, but this call said it aloud
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


def replays(program: Program, found: Trace) -> Iterator[tuple[Event, dict[str, JsonValue], Answers]]:
    """Yield every recorded call that a use of the plan could have replaced, with the plan's arguments and answers.

    Optional parameters of later nodes take the value of the first recorded call that the plan then also makes.
    """
    for event in found.events:
        if event.status not in {ResultStatus.OK, ResultStatus.ERROR}:
            continue
        for node, given in starts(program.plan, found, event):
            known = answers_around(found, event.position)
            yield event, _with_optional(program, node, given, known), known


def starts(plan: Plan, found: Trace, event: Event) -> Iterator[tuple[PlanNode, dict[str, JsonValue]]]:
    """Yield the entry nodes that a recorded call can stand for, with the arguments known at that call."""
    batch = batch_node(plan)
    if batch is not None:
        group = known_beforehand(found, event.position) if event.tool == batch.tool else []
        if len(group) > 1 and all(set(one.arguments) == set(batch.arguments) for one in group):
            yield batch, batch_arguments(batch, [one.arguments for one in group])
        return
    for node in entries(plan):
        given = arguments_from(plan, node, event)
        if given is not None:
            yield node, given


def batch_node(plan: Plan) -> PlanNode | None:
    """Return the first node if it runs over a list that is given."""
    first = plan.nodes[0]
    listed = any(isinstance(binding, FromParameter) and binding.path for binding in first.arguments.values())
    return first if listed else None


def batch_arguments(node: PlanNode, calls: Sequence[dict[str, JsonValue]]) -> dict[str, JsonValue]:
    """Return the list parameter that makes the node repeat these calls."""
    bindings = {name: binding for name, binding in node.arguments.items() if isinstance(binding, FromParameter)}
    name = next(iter(bindings.values())).name
    items: list[JsonValue] = [
        arguments[next(iter(bindings))] if len(next(iter(bindings.values())).path) == 1 else dict(arguments)
        for arguments in calls
    ]
    return {name: items}


def _with_optional(
    program: Program, entry: PlanNode, given: dict[str, JsonValue], known: Answers
) -> dict[str, JsonValue]:
    plan = program.plan
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
            if _makes(program, tried, known, event):
                given = tried
                break
    for switch in sorted(switches - set(given)):
        tried = given | {switch: True}
        tools = {node.tool for node in plan.nodes if node.switch == switch}
        if any(_makes(program, tried, known, event) for event in known.known.values() if event.tool in tools):
            given = tried
    return given


def _makes(program: Program, given: dict[str, JsonValue], known: Answers, event: Event) -> bool:
    """Whether the plan, so called, makes the recorded call; it may also make others that nobody recorded."""
    made: list[str] = []

    def call(tool: str, arguments: dict[str, JsonValue]) -> JsonValue:
        made.append(canonical([tool, arguments]))
        try:
            return known(tool, arguments)
        except Unrecorded:
            raise CallFailed(tool, "not recorded") from None

    try:
        program.run(given, call)
    except CompilerError:
        return False
    return canonical([event.tool, event.arguments]) in made
