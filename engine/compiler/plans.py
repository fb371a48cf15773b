"""The shape of a plan: which nodes run in which loop, and in what order.

A node runs once per element of the innermost loop that its arguments need. All loops of one node lie on one chain,
so a plan is a tree of blocks: the outer block runs once, an inner block once per element of its axis.
"""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from instar.engine.compiler.errors import PlanError
from instar.engine.compiler.values import LOOPS
from instar.engine.plan import Binding, FromConstant, FromEither, FromParameter, FromResult, Plan, PlanNode

RESERVED = frozenset({"tools", "errors", "error", "arguments", "message", "run", "self"})
"""Names that the emitted code uses itself."""

Source = tuple[str, str]
"""("node", name) or ("parameter", name)."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One loop: over what the last step of `path` yields, in the value of `source`."""

    source: Source
    path: tuple[str | int, ...]


@dataclass(slots=True)
class Block:
    """Nodes that run together: first these in order, then the inner loops in order. The outermost has no axis."""

    axis: Axis | None
    nodes: list[PlanNode] = field(default_factory=list)
    inner: list[Block] = field(default_factory=list)

    def all_nodes(self) -> Iterator[PlanNode]:
        """Yield the nodes of this block and of those inside it."""
        yield from self.nodes
        for block in self.inner:
            yield from block.all_nodes()

    @property
    def switch(self) -> str:
        """The switch without which nothing in this block runs, so that its loop need not run either."""
        switches = {node.switch for node in self.all_nodes()}
        return switches.pop() if len(switches) == 1 else ""


def identifier(name: str) -> bool:
    """Whether `name` can be a variable of the emitted code: no keyword, no builtin, nothing the code uses itself."""
    return (
        name.isidentifier()
        and name.isascii()
        and not name.startswith("_")
        and not keyword.iskeyword(name)
        and not keyword.issoftkeyword(name)
        and not hasattr(builtins, name)
        and name not in RESERVED
    )


def references(binding: Binding) -> Sequence[FromParameter | FromConstant | FromResult]:
    """Return the plain bindings a binding is made of."""
    return binding.options if isinstance(binding, FromEither) else (binding,)


def chain(binding: FromParameter | FromConstant | FromResult, axes: dict[str, tuple[Axis, ...]]) -> tuple[Axis, ...]:
    """Return the loops a binding needs, outermost first."""
    if isinstance(binding, FromConstant):
        return ()
    if isinstance(binding, FromResult):
        if binding.collect:
            return axes[binding.node] if binding.collect == "each" else ()
        outer, source = axes[binding.node], ("node", binding.node)
    else:
        outer, source = (), ("parameter", binding.name)
    path = tuple(binding.path)
    return (*outer, *(Axis(source, path[: i + 1]) for i, step in enumerate(path) if step in LOOPS))


def axes_of(plan: Plan) -> dict[str, tuple[Axis, ...]]:
    """Return for every node the loops it runs in, outermost first, and check the plan on the way.

    Raises:
        PlanError: A name is unusable or used twice, a source is unknown or comes later, two arguments need loops
            that do not lie on one chain, an alternative loops, a required node needs an optional one or collects
            a list, or a node needs single results of a loop together with something that is collected from it.
    """
    parameters = {parameter.name for parameter in plan.parameters}
    for name in sorted(parameters):
        if not identifier(name):
            raise PlanError(plan.nodes[0].name, f"parameter {name!r} cannot be a variable")
    if len(parameters) != len(plan.parameters):
        raise PlanError(plan.nodes[0].name, "two parameters share a name")
    if plan.limit and plan.limit not in parameters:
        raise PlanError(plan.nodes[0].name, "the limit is no parameter")
    axes: dict[str, tuple[Axis, ...]] = {}
    optional: set[str] = set()
    for node in plan.nodes:
        if not identifier(node.name) or node.name in axes or node.name in parameters:
            raise PlanError(node.name, "the name cannot be a variable of its own")
        if node.switch and (node.switch not in parameters or not node.optional):
            raise PlanError(node.name, "a switch is a parameter of an optional node")
        axes[node.name] = _axes(node, axes, parameters, optional)
        if node.optional:
            optional.add(node.name)
    _stages(plan, axes)
    return axes


def _stages(plan: Plan, axes: dict[str, tuple[Axis, ...]]) -> dict[str, int]:
    """Return after how many rounds of loops each node can run: what collects from a loop waits for its end."""
    stages: dict[str, int] = {}
    for node in plan.nodes:
        sources = [o for b in node.arguments.values() for o in references(b) if isinstance(o, FromResult)]
        stage = max((stages[o.node] + (o.collect == "all" and bool(axes[o.node])) for o in sources), default=0)
        for option in sources:
            if option.collect != "all" and axes[option.node] and stages[option.node] != stage:
                raise PlanError(node.name, f"it needs each result of {option.node!r} after all of them")
        stages[node.name] = stage
    return stages


def _axes(
    node: PlanNode, axes: dict[str, tuple[Axis, ...]], parameters: set[str], optional: set[str]
) -> tuple[Axis, ...]:
    longest: tuple[Axis, ...] = ()
    chains: list[tuple[Axis, ...]] = []
    for argument, binding in node.arguments.items():
        options = references(binding)
        for option in options:
            if isinstance(option, FromResult) and option.node not in axes:
                raise PlanError(node.name, f"{argument!r} needs the unknown node {option.node!r}")
            if isinstance(option, FromParameter) and option.name not in parameters:
                raise PlanError(node.name, f"{argument!r} needs the unknown parameter {option.name!r}")
            if isinstance(option, FromConstant) and option.value is None and node.optional:
                raise PlanError(node.name, f"{argument!r} is null, which would always skip an optional node")
            needs = isinstance(option, FromResult) and option.node in optional
            if needs and len(options) == 1 and not node.optional:
                raise PlanError(node.name, f"{argument!r} comes from an optional node")
            steps = chain(option, axes)
            collects = isinstance(option, FromResult) and bool(option.collect)
            if len(options) > 1 and (steps or collects):
                raise PlanError(node.name, f"an alternative of {argument!r} loops")
            if collects and not node.optional:
                raise PlanError(node.name, f"{argument!r} may find nothing to collect, so the node must be optional")
            chains.append(steps)
            longest = max(longest, steps, key=len)
    if any(longest[: len(steps)] != steps for steps in chains):
        raise PlanError(node.name, "its arguments need loops that do not nest")
    return longest


def blocks(plan: Plan) -> list[Block]:
    """Return the plan as trees of blocks, one after the other: a later one collects from loops of earlier ones.

    Raises:
        PlanError: See `axes_of`.
    """
    axes = axes_of(plan)
    stages = _stages(plan, axes)
    trees = [Block(None) for _ in range(max(stages.values()) + 1)]
    known: dict[tuple[int, tuple[Axis, ...]], Block] = {(stage, ()): tree for stage, tree in enumerate(trees)}
    for node in plan.nodes:
        stage, needs = stages[node.name], axes[node.name]
        for depth in range(1, len(needs) + 1):
            prefix = needs[:depth]
            if (stage, prefix) not in known:
                known[stage, prefix] = Block(prefix[-1])
                known[stage, prefix[:-1]].inner.append(known[stage, prefix])
        known[stage, needs].nodes.append(node)
    return trees


def limited(plan: Plan, axis: Axis) -> bool:
    """Whether a loop is bounded: those over results are, those over a list that is given are not."""
    return bool(plan.limit) and axis.source[0] == "node"


def recovers(plan: Plan) -> bool:
    """Whether a run hands back partial results: failures in loops and of optional nodes end up in "errors"."""
    axes = axes_of(plan)
    return any(
        node.optional or axes[node.name] or any(isinstance(b, FromEither) for b in node.arguments.values())
        for node in plan.nodes
    )


def defaults(plan: Plan) -> dict[str, JsonValue]:
    """Return the parameters that need not be given, with their defaults."""
    return {p.name: p.json_schema["default"] for p in plan.parameters if "default" in p.json_schema}


def needed(plan: Plan, binding: FromEither) -> str:
    """Say what to give, where an argument has alternatives and none of them led to a value."""
    by_name = {node.name: node for node in plan.nodes}
    ways = []
    for option in binding.options:
        if isinstance(option, FromParameter):
            ways.append(option.name)
            continue
        given = [
            o.name
            for b in by_name[option.node].arguments.values()
            for o in references(b)
            if isinstance(o, FromParameter)
        ]
        ways.append(" and ".join(given) or option.node)
    return "give one of: " + "; ".join(ways)
