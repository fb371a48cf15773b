"""Writes a plan as readable Python: `def run(tools, *, …) -> dict`, one statement per step, no cleverness.

The code does exactly what `replay.execute` does. It needs no formatter: it is laid out as one would, and every line
range is traced back to the plan node it came from.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from instar.engine.compiler.layout import INDENT, WIDTH, assign_mapping, call, literal, mapping, prose, text_literal
from instar.engine.compiler.naming import singular
from instar.engine.compiler.plans import (
    RESERVED,
    Axis,
    Block,
    axes_of,
    blocks,
    defaults,
    limited,
    needed,
    recovers,
    references,
)
from instar.engine.compiler.snippets import SNIPPETS
from instar.engine.compiler.values import KEYS, LOOPS, VALUES
from instar.engine.documents import LineOrigin
from instar.engine.plan import Binding, FromConstant, FromEither, FromParameter, FromResult, Plan, PlanNode

HINT = 80
"""Characters of a hint in an error, so that it stands on one line at any depth."""

TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
}
"""JSON Schema types as annotations; anything else is not annotated."""


@dataclass(frozen=True, slots=True)
class Emitted:
    """The code of a plan, where its lines come from, and what it takes and returns."""

    source: str
    origins: list[LineOrigin]
    input_schema: dict[str, JsonValue]
    output_schema: dict[str, JsonValue]


def emit(plan: Plan, *, title: str = "", file: str = "scripts/skill.py") -> Emitted:
    """Write the plan as a module with one function, `run`.

    Raises:
        PlanError: The plan is malformed.
    """
    writer = _Writer(plan)
    writer.body()
    head = [f'"""{prose(title) or "Calls tools and returns what they answer"}."""', ""]
    for name, text in SNIPPETS.items():
        if any(f"{name}(" in line for line in writer.lines):
            head += ["", *text.splitlines(), ""]
    head += ["", *_signature(plan), *_docstring(plan)]
    lines = head + writer.lines
    origins = [
        LineOrigin(
            file=file,
            first_line=len(head) + first,
            last_line=len(head) + last,
            node=node.name,
            evidence=node.evidence,
        )
        for first, last, node in writer.spans
    ]
    return Emitted("\n".join(lines) + "\n", origins, input_schema(plan), output_schema(plan))


def input_schema(plan: Plan) -> dict[str, JsonValue]:
    """Return the JSON Schema of the parameters."""
    optional = defaults(plan)
    properties: dict[str, JsonValue] = {}
    for parameter in plan.parameters:
        schema = {key: value for key, value in parameter.json_schema.items() if key != "default"}
        if optional.get(parameter.name) is not None:
            schema["default"] = optional[parameter.name]
        properties[parameter.name] = schema | {"description": parameter.description}
    required: list[JsonValue] = [p.name for p in plan.parameters if p.name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def output_schema(plan: Plan) -> dict[str, JsonValue]:
    """Return the JSON Schema of what `run` returns: one entry per node, and the errors of those that may fail."""
    axes = axes_of(plan)
    properties: dict[str, JsonValue] = {}
    for node in plan.nodes:
        if axes[node.name]:
            properties[node.name] = {"type": "array", "description": f"Every result of {node.tool}, in order."}
        else:
            skipped = " Null where it was skipped or failed." if node.optional else ""
            properties[node.name] = {"description": f"The result of {node.tool}.{skipped}"}
    if recovers(plan):
        properties["errors"] = {
            "type": "array",
            "description": "Calls that failed, with tool, arguments and error; the rest is complete without them.",
            "items": {"type": "object"},
        }
    names: list[JsonValue] = list(properties)
    return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}


def _signature(plan: Plan) -> list[str]:
    optional = defaults(plan)
    parameters = []
    for parameter in sorted(plan.parameters, key=lambda p: p.name in optional):
        kind = TYPES.get(str(parameter.json_schema.get("type", "")), "")
        default = ""
        if parameter.name in optional:
            value = optional[parameter.name]
            if value is None and kind:
                kind += " | None"
            default = f" = {literal(value)}" if kind else f"={literal(value)}"
        parameters.append(f"{parameter.name}{': ' if kind else ''}{kind}{default}")
    stars = ["*", *parameters] if parameters else []
    return call("", "def run", ["tools", *stars], " -> dict:")


def _docstring(plan: Plan) -> list[str]:
    tools = ", ".join(prose(node.tool, 60) for node in plan.nodes)
    line = f'{INDENT}"""Call {tools}."""'
    return [line if len(line) <= WIDTH else f'{INDENT}"""Call {len(plan.nodes)} tools and return their results."""']


@dataclass(slots=True)
class _Writer:
    plan: Plan
    lines: list[str] = field(default_factory=list)
    spans: list[tuple[int, int, PlanNode]] = field(default_factory=list)
    taken: set[str] = field(init=False)
    items: dict[Axis, str] = field(default_factory=dict)
    current: dict[str, str] = field(default_factory=dict)
    guard: str = ""
    """The switch that is known to be on."""
    used: set[str] = field(init=False)
    looping: dict[str, bool] = field(init=False)

    def __post_init__(self) -> None:
        axes = axes_of(self.plan)
        self.looping = {name: bool(steps) for name, steps in axes.items()}
        self.taken = set(axes) | {p.name for p in self.plan.parameters} | set(RESERVED)
        self.used = {
            option.node
            for node in self.plan.nodes
            for binding in node.arguments.values()
            for option in references(binding)
            if isinstance(option, FromResult) and option.collect != "all"
        }

    def body(self) -> None:
        if recovers(self.plan):
            self.lines.append(f"{INDENT}errors = []")
        for node in self.plan.nodes:
            if self.looping[node.name]:
                self.span(node, [f"{INDENT}{node.name} = []"])
        for tree in blocks(self.plan):
            self.block(tree, INDENT)
        returned = {node.name: node.name for node in self.plan.nodes}
        if recovers(self.plan):
            returned["errors"] = "errors"
        self.lines += assign_mapping(INDENT, "return ", returned)

    def span(self, node: PlanNode, lines: Sequence[str]) -> None:
        first = len(self.lines) + 1
        self.lines += lines
        self.spans.append((first, len(self.lines), node))

    def block(self, block: Block, indent: str) -> None:
        for node in block.nodes:
            self.node(node, indent, last=node is block.nodes[-1] and not block.inner)
        for inner in block.inner:
            assert inner.axis is not None  # noqa: S101 — only the outermost block has no axis
            first_node = next(inner.all_nodes())
            within = indent
            if inner.switch and inner.switch != self.guard:
                self.span(first_node, [f"{indent}if {inner.switch}:"])
                within += INDENT
            variable = self.item_name(inner)
            lenient = all(node.optional for node in inner.all_nodes())
            over = self.iterated(inner.axis, lenient=lenient)
            self.items[inner.axis] = variable
            line = [f"{within}for {variable} in {over}:"]
            if limited(self.plan, inner.axis):
                passed = [over, self.plan.limit, text_literal(first_node.tool), "errors"]
                line = call(within, f"for {variable} in _limited", passed, ":")
            self.span(first_node, line)
            before, self.guard = self.guard, inner.switch or self.guard
            self.block(inner, within + INDENT)
            self.guard = before

    def iterated(self, axis: Axis, *, lenient: bool) -> str:
        container = self.follow(axis.source, axis.path[:-1], lenient=lenient)
        if lenient:
            container = f"_each({container}, {'list' if axis.path[-1] not in {KEYS, VALUES} else 'dict'})"
        return f"{container}.values()" if axis.path[-1] == VALUES else container

    def item_name(self, block: Block) -> str:
        """Name the loop variable after the argument it is passed as, else after the list it comes from."""
        axis = block.axis
        assert axis is not None  # noqa: S101 — see `block`
        wanted = ""
        for node in block.nodes:
            for argument, binding in node.arguments.items():
                if isinstance(binding, FromResult) and binding.collect:
                    continue
                direct = isinstance(binding, FromResult | FromParameter) and tuple(binding.path) == axis.path
                if direct and not wanted:
                    wanted = argument
        words = [str(step) for step in axis.path if isinstance(step, str) and step not in LOOPS]
        return self.fresh(wanted or singular(words[-1] if words else axis.source[1]))

    def fresh(self, wanted: str) -> str:
        base = re.sub(r"\W+", "_", wanted, flags=re.ASCII).strip("_").lower()[:40] or "item"
        if base[0].isdigit() or keyword.iskeyword(base) or keyword.issoftkeyword(base) or hasattr(builtins, base):
            base = f"item_{base}"
        name, number = base, 2
        while name in self.taken:
            name, number = f"{base}_{number}", number + 1
        self.taken.add(name)
        return name

    def node(self, node: PlanNode, indent: str, *, last: bool) -> None:
        looping = self.looping[node.name]
        target = self.fresh(f"one_{node.name}") if looping and node.name in self.used else node.name
        self.current[node.name] = target
        lines: list[str] = []
        if node.optional and (not looping or target != node.name):
            lines.append(f"{indent}{target} = None")
        if node.switch and node.switch != self.guard:
            lines.append(f"{indent}if {node.switch}:")
            indent += INDENT
        arguments = {
            name: self.argument(node, name, binding, indent, lines) for name, binding in node.arguments.items()
        }
        if not node.optional and not looping:
            lines += self.plain_call(node, indent, arguments)
        else:
            lines += self.guarded_call(node, indent, arguments, target, looping=looping, last=last)
        self.span(node, lines)

    def plain_call(self, node: PlanNode, indent: str, arguments: dict[str, str]) -> list[str]:
        given = self.omits(node)
        display = mapping(arguments.items())
        inline = f"_given({display})" if given else display
        one = f"{indent}{node.name} = tools.call({text_literal(node.tool)}, {inline})"
        if len(one) <= WIDTH:
            return [one]
        lines = assign_mapping(indent, "arguments = ", arguments)
        passed = "_given(arguments)" if given else "arguments"
        return lines + call(indent, f"{node.name} = tools.call", [text_literal(node.tool), passed])

    def guarded_call(
        self, node: PlanNode, indent: str, arguments: dict[str, str], target: str, *, looping: bool, last: bool
    ) -> list[str]:
        lines = assign_mapping(indent, "arguments = ", arguments)
        if self.omits(node):
            lines.append(f"{indent}arguments = _given(arguments)")
        if node.optional and arguments:
            lines.append(f"{indent}if None not in arguments.values():")
            indent += INDENT
        lines.append(f"{indent}try:")
        inner = indent + INDENT
        tool = text_literal(node.tool)
        if looping and target == node.name:
            exploded = call(inner + INDENT, "tools.call", [tool, "arguments"])
            lines += _nested(inner, f"{target}.append", f"tools.call({tool}, arguments)", exploded)
        else:
            lines += call(inner, f"{target} = tools.call", [tool, "arguments"])
            if looping:
                lines.append(f"{inner}{node.name}.append({target})")
        lines.append(f"{indent}except tools.ToolError as error:")
        record = {"tool": tool, "arguments": "arguments", "error": "str(error)"}
        exploded = assign_mapping(inner + INDENT, "", record)
        lines += _nested(inner, "errors.append", mapping(record.items()), exploded)
        if not node.optional and not last:
            lines.append(f"{inner}continue")
        return lines

    def omits(self, node: PlanNode) -> bool:
        absent = {name for name, value in defaults(self.plan).items() if value is None}
        return not node.optional and any(
            isinstance(binding, FromParameter) and binding.name in absent for binding in node.arguments.values()
        )

    def argument(self, node: PlanNode, name: str, binding: Binding, indent: str, lines: list[str]) -> str:
        if isinstance(binding, FromEither):
            options = [self.value(option, lenient=True) for option in binding.options]
            code = f"_first({', '.join(options)})"
            if node.optional:
                return code
            variable = self.fresh(f"{name}_found")
            lines += call(indent, f"{variable} = _first", options)
            lines.append(f"{indent}if {variable} is None:")
            otherwise = text_literal(needed(self.plan, binding)[:HINT])
            lines.append(f'{indent}{INDENT}problem = errors[-1]["error"] if errors else ""')
            lines += call(f"{indent}{INDENT}", "raise ValueError", [f"problem or {otherwise}"])
            return variable
        return self.value(binding, lenient=node.optional)

    def value(self, binding: FromParameter | FromConstant | FromResult, *, lenient: bool) -> str:
        if isinstance(binding, FromConstant):
            return literal(binding.value)
        if isinstance(binding, FromParameter):
            return self.follow(("parameter", binding.name), tuple(binding.path), lenient=lenient)
        if binding.collect:
            every = binding.collect == "all" and self.looping[binding.node]
            results = binding.node if every else f"[{self.current[binding.node]}]"
            return f"_collected({', '.join([results, *map(literal, binding.path)])})"
        return self.follow(("node", binding.node), tuple(binding.path), lenient=lenient)

    def follow(self, source: tuple[str, str], path: tuple[str | int, ...], *, lenient: bool) -> str:
        start = max((i + 1 for i, step in enumerate(path) if step in LOOPS), default=0)
        if start:
            base = self.items[Axis(source, path[:start])]
        else:
            base = source[1] if source[0] == "parameter" else self.current[source[1]]
        steps = [literal(step) for step in path[start:]]
        if not steps:
            return base
        if lenient:
            return f"_pick({', '.join([base, *steps])})"
        return base + "".join(f"[{step}]" for step in steps)


def _nested(indent: str, target: str, argument: str, exploded: Sequence[str]) -> list[str]:
    """Lay out `target(argument)`; the exploded form of the argument is for one that fits on no line."""
    line = f"{indent}{target}({argument})"
    if len(line) <= WIDTH:
        return [line]
    fits = len(indent) + len(INDENT) + len(argument) <= WIDTH
    return [f"{indent}{target}(", *([f"{indent}{INDENT}{argument}"] if fits else exploded), f"{indent})"]
