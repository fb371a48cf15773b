"""Turns a grown tree into a plan: names, parameters with types and descriptions, evidence."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence

from pydantic import JsonValue

from instar.engine.compiler.firings import ROOT, Growth, Tree
from instar.engine.compiler.index import Trace
from instar.engine.compiler.naming import node_name, parameter_name, unique
from instar.engine.compiler.settings import MiningSettings
from instar.engine.compiler.values import canonical
from instar.engine.documents import (
    Binding,
    FromConstant,
    FromParameter,
    FromResult,
    Plan,
    PlanNode,
    PlanParameter,
    Support,
)
from instar.engine.session import ToolSchema

MAX_EXAMPLES = 3
SCHEMA_KEYS = ("type", "enum", "items", "format", "pattern", "minimum", "maximum", "properties", "required")


def plan_of(tree: Tree, settings: MiningSettings) -> Plan:
    """Write the tree as a plan. Arguments that calls of the root sometimes lack become optional parameters."""
    return _Planner(tree, settings).plan()


class _Planner:
    def __init__(self, tree: Tree, settings: MiningSettings) -> None:
        self.tree, self.settings = tree, settings
        self.schemas = _schemas(firing.trace for firing in tree.firings)
        self.names = {ROOT: node_name(tree.tool, ())}
        for growth in tree.growths:
            self.names[growth.name] = node_name(growth.tool, self.names.values())
        self.parameters: list[PlanParameter] = []
        self.taken = set(self.names.values())
        self.switches: dict[str, str] = {}

    def plan(self) -> Plan:
        tree = self.tree
        roots = [firing.events[firing.root].arguments for firing in tree.firings]
        seen = Counter(name for arguments in roots for name in arguments)
        order = self.argument_order(tree.tool, seen)
        arguments: dict[str, Binding] = {}
        for name in order:
            values = [given[name] for given in roots if name in given]
            optional = seen[name] < len(roots)
            arguments[name] = FromParameter(name=self.parameter(tree.tool, name, values, optional=optional))
        by_argument = {name: binding for name, binding in arguments.items() if isinstance(binding, FromParameter)}
        tasks = {firing.trace.task for firing in tree.firings}
        sessions = {firing.trace.order for firing in tree.firings}
        nodes = [
            PlanNode(
                name=self.names[ROOT],
                tool=tree.tool,
                arguments=arguments,
                support=Support(sessions=len(sessions), tasks=len(tasks), calls=len(tree.firings)),
                confidence=1.0,
                null_rate=0.0,
                evidence=self.evidence(ROOT),
            )
        ]
        optional_nodes: set[str] = set()
        for growth in tree.growths:
            nodes.append(self.node(growth, by_argument, optional_nodes))
            if nodes[-1].optional:
                optional_nodes.add(growth.name)
        return Plan(parameters=self.parameters, nodes=nodes)

    def node(self, growth: Growth, by_argument: dict[str, FromParameter], optional_nodes: set[str]) -> PlanNode:
        arguments: dict[str, Binding] = {}
        own = False
        for name, (kind, source, path) in growth.bindings.items():
            if kind == "result":
                arguments[name] = FromResult(node=self.names[source], path=list(path))
            elif kind == "argument":
                arguments[name] = by_argument[source]
            elif kind == "constant":
                arguments[name] = FromConstant(value=_value(source))
            else:
                own = True
                values = [
                    firing.events[at].arguments[name]
                    for firing in self.tree.firings
                    for at in firing.nodes.get(growth.name, ())
                ]
                arguments[name] = FromParameter(name=self.parameter(growth.tool, name, values, optional=True))
        switch = self.switch(growth)
        needs_optional = any(
            (kind == "result" and source in optional_nodes)
            or (kind == "argument" and "default" in self.schema_of(by_argument[source].name))
            for kind, source, _ in growth.bindings.values()
        )
        ordered = {name: arguments[name] for name in self.argument_order(growth.tool, arguments)}
        return PlanNode(
            name=self.names[growth.name],
            tool=growth.tool,
            arguments=ordered,
            optional=own or needs_optional or growth.absent or bool(switch),
            switch=switch,
            support=Support(sessions=growth.sessions, tasks=growth.tasks, calls=growth.calls),
            confidence=growth.confidence,
            null_rate=growth.null_rate,
            evidence=self.evidence(growth.name),
        )

    def switch(self, growth: Growth) -> str:
        """Name the parameter that asks for a follow-up which is not usually wanted, or one that its source needs."""
        sources = [self.switches.get(source, "") for kind, source, _ in growth.bindings.values() if kind == "result"]
        inherited = next((name for name in sources if name), "")
        if (
            inherited
            or growth.confidence >= self.settings.usual
            or any(o[0] == "new" for o in growth.bindings.values())
        ):
            self.switches[growth.name] = inherited
            return inherited
        name = unique(f"with_{self.names[growth.name]}", self.taken, "switch")
        self.taken.add(name)
        self.switches[growth.name] = name
        self.parameters.append(
            PlanParameter(
                name=name,
                json_schema={"type": "boolean", "default": False},
                description=f"Also call {growth.tool}; wanted in {growth.confidence:.0%} of the recorded uses.",
                examples=[True],
            )
        )
        return name

    def schema_of(self, parameter: str) -> dict[str, JsonValue]:
        return next(p.json_schema for p in self.parameters if p.name == parameter)

    def argument_order(self, tool: str, names: Iterable[str]) -> list[str]:
        """The order of the tool's schema, then the rest by name."""
        schema = self.schemas.get(tool)
        properties = schema.parameters.get("properties") if schema else None
        known = list(properties) if isinstance(properties, dict) else []
        return sorted(names, key=lambda name: (known.index(name) if name in known else len(known), name))

    def parameter(self, tool: str, argument: str, values: Sequence[JsonValue], *, optional: bool) -> str:
        name = parameter_name(argument, self.taken)
        self.taken.add(name)
        described, description = self.described(tool, argument)
        schema = described or observed_schema(values)
        if optional:
            schema["default"] = None
        examples = sorted({canonical(value): value for value in values}.items())[:MAX_EXAMPLES]
        self.parameters.append(
            PlanParameter(
                name=name,
                json_schema=schema,
                description=description or f"The {argument.replace('_', ' ')} that {tool} takes.",
                examples=[value for _, value in examples],
            )
        )
        return name

    def described(self, tool: str, argument: str) -> tuple[dict[str, JsonValue], str]:
        schema = self.schemas.get(tool)
        properties = schema.parameters.get("properties") if schema else None
        found = properties.get(argument) if isinstance(properties, dict) else None
        if not isinstance(found, dict):
            return {}, ""
        description = found.get("description")
        kept = {key: found[key] for key in SCHEMA_KEYS if key in found}
        return (kept if "type" in kept else {}), description if isinstance(description, str) else ""

    def evidence(self, node: str) -> list[str]:
        """Page ids of the calls and results, spread over tasks: one call per task first, then the second ones."""
        queues: dict[str, list[tuple[str, str]]] = {}
        for firing in self.tree.firings:
            for at in firing.nodes.get(node, ()):
                event, session = firing.events[at], firing.trace.session
                pair = (session.evidence_id(event.step), session.evidence_id(event.result_step))
                queue = queues.setdefault(firing.trace.task, [])
                if pair not in queue and len(queue) < self.settings.max_evidence:
                    queue.append(pair)
        limit = self.settings.max_evidence
        kept: list[str] = []
        for rank in range(limit):
            for task in sorted(queues):
                if rank < len(queues[task]) and len(kept) + 2 <= limit:
                    kept.extend(queues[task][rank])
        return sorted(kept)


def _schemas(traces: Iterable[Trace]) -> dict[str, ToolSchema]:
    """The schema of each tool; where sessions disagree, the one most sessions carry."""
    votes: dict[str, Counter[str]] = {}
    found: dict[tuple[str, str], ToolSchema] = {}
    counted: set[str] = set()
    seen: dict[int, list[tuple[str, str]]] = {}
    for trace in traces:
        if trace.order in counted:
            continue
        counted.add(trace.order)
        offered = trace.session.tools
        if id(offered) not in seen:
            seen[id(offered)] = [(schema.name, json.dumps(schema.parameters, sort_keys=True)) for schema in offered]
            found.update(zip(seen[id(offered)], offered, strict=True))
        for name, text in seen[id(offered)]:
            votes.setdefault(name, Counter())[text] += 1
    return {name: found[name, min(texts, key=lambda t: (-texts[t], t))] for name, texts in votes.items()}


def observed_schema(values: Sequence[JsonValue]) -> dict[str, JsonValue]:
    """Return the JSON Schema type that all observed values share, or an empty schema."""
    kinds = {_kind(value) for value in values}
    if kinds == {"integer", "number"}:
        return {"type": "number"}
    return {"type": kinds.pop()} if len(kinds) == 1 and "null" not in kinds else {}


def _kind(value: JsonValue) -> str:
    if value is None:
        return "null"
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "array")):
        if isinstance(value, kind):
            return name
    return "object"


def _value(text: str) -> JsonValue:
    """Undo `canonical` for a scalar."""
    if text.startswith("s"):
        return text[1:]
    value: JsonValue = json.loads(text)
    return value
