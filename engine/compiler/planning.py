"""Turns what was mined into a plan: a tree, a tree with several ways to its root, or a batch of known calls."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from pydantic import JsonValue

from instar.engine.compiler.firings import RESULTS, ROOT, Firing, Growth, Tree
from instar.engine.compiler.index import Event, Trace
from instar.engine.compiler.naming import node_name, plural, unique
from instar.engine.compiler.parameters import Parameters, evidence_of, examples_of, observed_schema, schemas_of
from instar.engine.compiler.settings import MiningSettings
from instar.engine.plan import Binding, FromConstant, FromEither, FromParameter, FromResult, Plan, PlanNode, Support

MAX_ITEMS = 50
"""The default bound of a loop."""

Way = tuple[Tree, Growth]
"""A tree whose root leads to the root of another tree, and the follow-up that is that root."""


def plan_of(tree: Tree, settings: MiningSettings, ways: Sequence[Way] = (), *, given: bool = True) -> Plan:
    """Write a tree as a plan.

    Arguments that calls of the root sometimes lack become optional parameters. Each of the `ways` becomes an optional
    first node whose result is an alternative to giving the root's argument, which is possible only if `given`.
    """
    return _Planner(tree, settings, ways, given).plan()


class _Planner:
    def __init__(self, tree: Tree, settings: MiningSettings, ways: Sequence[Way], given: bool) -> None:
        self.tree, self.settings, self.ways, self.given = tree, settings, ways, given
        reserved = {name for each in (tree, *(way for way, _ in ways)) for name in arguments_of(each)}
        self.names: dict[str, str] = {}
        for node, tool in ((ROOT, tree.tool), *((growth.name, growth.tool) for growth in tree.growths)):
            self.names[node] = node_name(tool, [*self.names.values(), *reserved])
        self.way_names: list[str] = []
        for way, _ in ways:
            taken = [*self.names.values(), *self.way_names, *reserved]
            self.way_names.append(node_name(way.tool, taken, whole=True))
        traces = [firing.trace for each in (tree, *(way for way, _ in ways)) for firing in each.firings]
        self.parameters = Parameters(schemas_of(traces), {*self.names.values(), *self.way_names})
        self.switches: dict[str, str] = {}
        self.optional_nodes: set[str] = set()

    def plan(self) -> Plan:
        nodes: list[PlanNode] = []
        options: list[FromParameter | FromResult] = []
        for (way, growth), name in zip(self.ways, self.way_names, strict=True):
            nodes.append(self.root(way, name, optional=True))
            (binding,) = growth.bindings.values()
            options.append(FromResult(node=name, path=list(binding[2])))
        first = self.root(self.tree, self.names[ROOT], optional=bool(self.ways))
        by_argument = {name: given for name, given in first.arguments.items() if isinstance(given, FromParameter)}
        if self.ways:
            ((argument, parameter),) = by_argument.items()
            if self.given:
                options.insert(0, parameter)
            else:
                del self.parameters.found[parameter.name]
            either = FromEither(options=options)
            first = first.model_copy(update={"arguments": {argument: either}, "optional": False})
        nodes.append(first)
        nodes += [self.node(growth, by_argument) for growth in self.tree.growths]
        limit = ""
        if any(growth.looped for growth in self.tree.growths):
            schema: dict[str, JsonValue] = {"type": "integer", "minimum": 1, "default": MAX_ITEMS}
            said = "How many items of a list are followed at most; the others are reported as left out."
            name = unique("max_items", self.parameters.taken, "limit")
            limit = self.parameters.put(name, schema, said, [MAX_ITEMS], optional=False)
        return Plan(parameters=list(self.parameters.found.values()), nodes=nodes, limit=limit)

    def root(self, tree: Tree, name: str, *, optional: bool) -> PlanNode:
        given = [firing.events[firing.root].arguments for firing in tree.firings]
        seen = Counter(argument for arguments in given for argument in arguments)
        arguments: dict[str, Binding] = {}
        for argument in self.parameters.order(tree.tool, seen):
            values = [each[argument] for each in given if argument in each]
            lacking = optional or seen[argument] < len(given)
            arguments[argument] = FromParameter(
                name=self.parameters.add(tree.tool, argument, values, optional=lacking)
            )
        return PlanNode(
            name=name,
            tool=tree.tool,
            arguments=arguments,
            optional=optional,
            support=Support(
                sessions=len({firing.trace.order for firing in tree.firings}),
                tasks=len({firing.trace.task for firing in tree.firings}),
                calls=len(tree.firings),
            ),
            confidence=1.0,
            null_rate=0.0,
            evidence=self.evidence(tree, ROOT),
        )

    def node(self, growth: Growth, by_argument: dict[str, FromParameter]) -> PlanNode:
        arguments: dict[str, Binding] = {}
        own = needs_optional = False  # whether it has an input of its own, and whether something it needs may lack
        for name in self.parameters.order(growth.tool, growth.bindings):
            kind, source, path = growth.bindings[name]
            if kind in RESULTS:
                gathers: Literal["", "each", "all"] = "each" if kind == "each" else "all" if kind == "all" else ""
                arguments[name] = FromResult(node=self.names[source], path=list(path), collect=gathers)
                needs_optional = needs_optional or bool(gathers) or source in self.optional_nodes
            elif kind == "argument":
                arguments[name] = by_argument[source]
                needs_optional = needs_optional or self.parameters.optional(by_argument[source].name)
            elif kind == "constant":
                arguments[name] = FromConstant(value=_value(source))
            else:
                own = True
                values = [event.arguments[name] for event in calls_of(self.tree.firings, growth.name)]
                arguments[name] = FromParameter(name=self.parameters.add(growth.tool, name, values, optional=True))
        switch = self.switch(growth)
        optional = own or needs_optional or growth.absent or bool(switch)
        if optional:
            self.optional_nodes.add(growth.name)
        return PlanNode(
            name=self.names[growth.name],
            tool=growth.tool,
            arguments=arguments,
            optional=optional,
            switch=switch,
            support=Support(sessions=growth.sessions, tasks=growth.tasks, calls=growth.calls),
            confidence=growth.confidence,
            null_rate=growth.null_rate,
            evidence=self.evidence(self.tree, growth.name),
        )

    def switch(self, growth: Growth) -> str:
        """Name the parameter that asks for a follow-up which is not usually wanted, or one that its source needs."""
        sources = [self.switches.get(source, "") for kind, source, _ in growth.bindings.values() if kind in RESULTS]
        name = next((name for name in sources if name), "")
        new = any(kind == "new" for kind, _, _ in growth.bindings.values())
        rare = growth.confidence < self.settings.usual or growth.wanted < self.settings.usual_calls
        first = growth is self.tree.growths[0]  # without it the skill would do nothing more than its first call
        if not name and not new and rare and not first:
            share = f"{growth.confidence:.0%}"
            description = f"Also call {growth.tool}; wanted in {share} of the recorded uses."
            name = self.parameters.add_switch(f"with_{self.names[growth.name]}", description)
        self.switches[growth.name] = name
        return name

    def evidence(self, tree: Tree, node: str) -> list[str]:
        calls = ((firing.trace, firing.events[at]) for firing in tree.firings for at in firing.nodes.get(node, ()))
        return evidence_of(calls, self.settings.max_evidence)


def arguments_of(tree: Tree) -> set[str]:
    """Return the names of the arguments that the root was called with."""
    return {name for firing in tree.firings for name in firing.events[firing.root].arguments}


def calls_of(firings: Sequence[Firing], node: str) -> list[Event]:
    """Return the calls that a follow-up explains."""
    return [firing.events[at] for firing in firings for at in firing.nodes.get(node, ())]


def batch_plan(tool: str, groups: Sequence[tuple[Trace, list[Event]]], settings: MiningSettings) -> Plan:
    """Write groups of calls of one tool, with the same argument names, as one loop over a list that is given."""
    calls = [(trace, event) for trace, group in groups for event in group]
    name = node_name(tool, ())
    parameters = Parameters(schemas_of(trace for trace, _ in calls), {name})
    given = [event.arguments for _, event in calls]
    schemas: dict[str, dict[str, JsonValue]] = {}
    for argument in parameters.order(tool, given[0]):
        schema, description = parameters.described(tool, argument)
        schema = schema or observed_schema([each[argument] for each in given])
        schemas[argument] = schema | ({"description": description} if description else {})
    if len(schemas) == 1:
        (argument,) = schemas
        items: dict[str, JsonValue] = schemas[argument]
        said = f"The {argument.replace('_', ' ')} of each call of {tool}."
        wanted, examples = plural(argument), examples_of(each[argument] for each in given)
    else:
        listed: list[JsonValue] = list(schemas)
        properties: dict[str, JsonValue] = dict(schemas)
        items = {"type": "object", "properties": properties, "required": listed}
        said = f"One object per call of {tool}: {', '.join(schemas)}."
        wanted, examples = plural(name), examples_of(dict(each) for each in given)
    listing = unique(wanted, parameters.taken, "list")
    parameters.put(listing, {"type": "array", "items": items}, said, [examples], optional=False)
    node = PlanNode(
        name=name,
        tool=tool,
        arguments={
            argument: FromParameter(name=listing, path=["*"] if len(schemas) == 1 else ["*", argument])
            for argument in schemas
        },
        support=Support(
            sessions=len({trace.order for trace, _ in groups}),
            tasks=len({trace.task for trace, _ in groups}),
            calls=len(calls),
        ),
        confidence=1.0,
        null_rate=0.0,
        evidence=evidence_of(calls, settings.max_evidence),
    )
    return Plan(parameters=list(parameters.found.values()), nodes=[node])


def _value(text: str) -> JsonValue:
    """Undo `canonical` for a scalar."""
    if text.startswith("s"):
        return text[1:]
    value: JsonValue = json.loads(text)
    return value
