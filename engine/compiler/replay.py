"""Executes a plan without writing code: the reference that the emitted code has to agree with.

What both promise:

- The outer block runs first, node by node; then each loop, item by item, with everything inside it; then what
  collects from those loops, in the same way. A loop all of whose nodes are switched off does not run.
- A node outside loops yields its result; a node inside loops yields the flat list of its results, in order.
- An optional node is skipped (None, or nothing in the list) when its switch is off or an argument is null or absent.
- A required node passes on what it is given; a parameter that was left out is left out of the call.
- A failed call of a required node outside loops ends the run with its error. Inside a loop it ends this item; of an
  optional node it only leaves the node out. Both are reported under "errors".
- A loop over a result takes no more items than the plan's limit, and reports under "errors" how many it left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic import JsonValue

from instar.engine.compiler.errors import CallFailed, NothingGiven, PlanError, ValueAbsent
from instar.engine.compiler.plans import Axis, Block, axes_of, blocks, defaults, limited, needed, recovers
from instar.engine.compiler.values import LOOPS, VALUES, Missing, collected, elements, step_into
from instar.engine.plan import Binding, FromConstant, FromEither, FromParameter, FromResult, Plan, PlanNode

CallTool = Callable[[str, dict[str, JsonValue]], JsonValue]
"""Answers a tool call, or raises `CallFailed` (the tool's error) or `Unrecorded`."""


def execute(plan: Plan, arguments: dict[str, JsonValue], call: CallTool) -> dict[str, JsonValue]:
    """Run the plan and return node name → result, and "errors" where the plan has loops or optional nodes.

    Raises:
        PlanError: The plan is malformed, or an argument is unknown or missing.
        CallFailed: A required call outside loops failed.
        ValueAbsent: A required argument has no value in the results at hand.
        NothingGiven: None of the alternatives for a required argument led to a value.
    """
    return Program(plan).run(arguments, call)


class Program:
    """A plan made ready to be run many times.

    Raises:
        PlanError: The plan is malformed.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.trees = blocks(plan)
        self.looping = frozenset(name for name, axes in axes_of(plan).items() if axes)
        self.defaults = defaults(plan)
        self.left_out = frozenset(name for name, value in self.defaults.items() if value is None)
        self.recovers = recovers(plan)

    def run(self, arguments: dict[str, JsonValue], call: CallTool) -> dict[str, JsonValue]:
        """Run once; see `execute`."""
        given = self.defaults | arguments
        names = [parameter.name for parameter in self.plan.parameters]
        if sorted(given) != sorted(names):
            raise PlanError(self.plan.nodes[0].name, f"takes {names}, was given {sorted(arguments)}")
        run = _Run(self, given, call)
        for tree in self.trees:
            run.block(tree)
        returned: dict[str, JsonValue] = {node.name: run.outputs[node.name] for node in self.plan.nodes}
        if self.recovers:
            returned["errors"] = run.errors
        return returned


class _NextItem(Exception):
    """A required call of this item failed."""


@dataclass(slots=True)
class _Run:
    program: Program
    given: dict[str, JsonValue]
    call: CallTool
    outputs: dict[str, JsonValue] = field(init=False)
    current: dict[str, JsonValue] = field(default_factory=dict)
    items: dict[Axis, JsonValue] = field(default_factory=dict)
    errors: list[JsonValue] = field(default_factory=list)

    def __post_init__(self) -> None:
        looping = self.program.looping
        self.outputs = {node.name: [] if node.name in looping else None for node in self.program.plan.nodes}

    def block(self, block: Block) -> None:
        for node in block.nodes:
            self.node(node, looping=block.axis is not None)
        for inner in block.inner:
            assert inner.axis is not None  # noqa: S101 — only the outermost block has no axis
            if inner.switch and not self.given[inner.switch]:
                continue
            for item in self.iterate(inner.axis, inner):
                self.items[inner.axis] = item
                try:
                    self.block(inner)
                except _NextItem:
                    continue

    def iterate(self, axis: Axis, block: Block) -> list[JsonValue]:
        items = self.elements(axis, block)
        if not limited(self.program.plan, axis):
            return items
        limit = self.given[self.program.plan.limit]
        if not isinstance(limit, int):
            raise PlanError(next(block.all_nodes()).name, "the limit is no number")
        if len(items) > limit:
            tool = next(block.all_nodes()).tool
            self.errors.append({"tool": tool, "arguments": {}, "error": f"{len(items) - limit} items left out"})
        return items[:limit]

    def elements(self, axis: Axis, block: Block) -> list[JsonValue]:
        required = [node.name for node in block.all_nodes() if not node.optional]
        try:
            value = self.value(axis.source, axis.path[:-1])
            if required and axis.path[-1] != VALUES and isinstance(value, str | dict | list):
                return list(value)
            return list(elements(value, axis.path[-1]))
        except Missing:
            if required:
                raise ValueAbsent(required[0], str(axis.path)) from None
            return []

    def node(self, node: PlanNode, *, looping: bool) -> None:
        self.current[node.name] = None
        if node.switch and not self.given[node.switch]:
            return
        arguments = {name: self.argument(node, name, binding) for name, binding in node.arguments.items()}
        if node.optional and None in arguments.values():
            return
        if not node.optional and any(
            isinstance(binding, FromParameter) and binding.name in self.program.left_out
            for binding in node.arguments.values()
        ):
            arguments = {name: value for name, value in arguments.items() if value is not None}
        try:
            result = self.call(node.tool, arguments)
        except CallFailed as failure:
            if not node.optional and not looping:
                raise
            self.errors.append({"tool": node.tool, "arguments": arguments, "error": failure.error})
            if not node.optional:
                raise _NextItem from None
            return
        self.current[node.name] = result
        if looping:
            collected = self.outputs[node.name]
            assert isinstance(collected, list)  # noqa: S101 — set so in __post_init__
            collected.append(result)
        else:
            self.outputs[node.name] = result

    def argument(self, node: PlanNode, name: str, binding: Binding) -> JsonValue:
        if isinstance(binding, FromEither):
            values = (self.plain(option) for option in binding.options)
            found = next((value for value in values if value is not None), None)
            if found is None and not node.optional:
                last = self.errors[-1] if self.errors else None
                text = last["error"] if isinstance(last, dict) else needed(self.program.plan, binding)
                raise NothingGiven(node.name, str(text))
            return found
        if node.optional:
            return self.plain(binding)
        try:
            return self.follow(binding)
        except Missing:
            raise ValueAbsent(node.name, name) from None

    def plain(self, binding: FromParameter | FromConstant | FromResult) -> JsonValue:
        """The value, or None where there is none."""
        try:
            return self.follow(binding)
        except Missing:
            return None

    def follow(self, binding: FromParameter | FromConstant | FromResult) -> JsonValue:
        if isinstance(binding, FromConstant):
            return binding.value
        if isinstance(binding, FromParameter):
            return self.value(("parameter", binding.name), tuple(binding.path))
        if binding.collect:
            return self.collected(binding)
        return self.value(("node", binding.node), tuple(binding.path))

    def collected(self, binding: FromResult) -> JsonValue:
        """The list that the binding gathers, or None where there is nothing to gather."""
        if binding.collect == "all" and binding.node in self.program.looping:
            outputs = self.outputs[binding.node]
            results = outputs if isinstance(outputs, list) else []
        else:
            results = [self.current[binding.node]]
        return collected(results, binding.path) or None

    def value(self, source: tuple[str, str], path: tuple[str | int, ...]) -> JsonValue:
        """Follow a path from its innermost loop, or from the source, as Python's own indexing would."""
        start = max((i + 1 for i, step in enumerate(path) if step in LOOPS), default=0)
        if start:
            value = self.items[Axis(source, path[:start])]
        else:
            kind, name = source
            value = self.given[name] if kind == "parameter" else self.current[name]
        for step in path[start:]:
            if isinstance(value, str) and isinstance(step, int) and -len(value) <= step < len(value):
                value = value[step]
            else:
                value = step_into(value, step)
        return value
