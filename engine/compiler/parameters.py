"""The parameters of a plan under construction, the tools' schemas they are described by, and evidence for nodes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from pydantic import JsonValue

from instar.engine.compiler.index import Event, Trace
from instar.engine.compiler.naming import parameter_name, unique
from instar.engine.compiler.values import canonical
from instar.engine.plan import PlanParameter
from instar.engine.session import ToolSchema

MAX_EXAMPLES = 3
MAX_VOTES = 500
SCHEMA_KEYS = ("type", "enum", "items", "format", "pattern", "minimum", "maximum", "properties", "required")


@dataclass(slots=True)
class Parameters:
    """Parameters by name, in the order they were added. `taken` also holds the names of nodes."""

    schemas: dict[str, ToolSchema]
    taken: set[str]
    found: dict[str, PlanParameter] = field(default_factory=dict)

    def add(self, tool: str, argument: str, values: Sequence[JsonValue], *, optional: bool) -> str:
        """Add the argument of a tool and return the name it got."""
        schema, description = self.described(tool, argument)
        schema = schema or observed_schema(values)
        description = description or f"The {argument.replace('_', ' ')} that {tool} takes."
        name = parameter_name(argument, self.taken)
        return self.put(name, schema, description, examples_of(values), optional=optional)

    def put(
        self, name: str, schema: dict[str, JsonValue], description: str, examples: list[JsonValue], *, optional: bool
    ) -> str:
        """Add a parameter under a free name and return it."""
        self.taken.add(name)
        if optional:
            schema = schema | {"default": None}
        self.found[name] = PlanParameter(name=name, json_schema=schema, description=description, examples=examples)
        return name

    def add_switch(self, wanted: str, description: str) -> str:
        """Add a boolean that is off by default."""
        name = unique(wanted, self.taken, "switch")
        self.taken.add(name)
        schema: dict[str, JsonValue] = {"type": "boolean", "default": False}
        self.found[name] = PlanParameter(name=name, json_schema=schema, description=description, examples=[True])
        return name

    def optional(self, name: str) -> bool:
        """Whether a parameter need not be given."""
        return "default" in self.found[name].json_schema

    def order(self, tool: str, arguments: Iterable[str]) -> list[str]:
        """Return arguments in the order of the tool's schema, then the rest by name."""
        schema = self.schemas.get(tool)
        properties = schema.parameters.get("properties") if schema else None
        known = list(properties) if isinstance(properties, dict) else []
        return sorted(arguments, key=lambda name: (known.index(name) if name in known else len(known), name))

    def described(self, tool: str, argument: str) -> tuple[dict[str, JsonValue], str]:
        """Return the type and the description that the tool's schema gives for an argument, where it does."""
        schema = self.schemas.get(tool)
        properties = schema.parameters.get("properties") if schema else None
        found = properties.get(argument) if isinstance(properties, dict) else None
        if not isinstance(found, dict):
            return {}, ""
        description = found.get("description")
        kept = {key: found[key] for key in SCHEMA_KEYS if key in found}
        return (kept if "type" in kept else {}), description if isinstance(description, str) else ""


def evidence_of(calls: Iterable[tuple[Trace, Event]], limit: int) -> list[str]:
    """Return page ids of calls and results, spread over tasks: one call per task first, then the second ones."""
    queues: dict[str, list[tuple[str, str]]] = {}
    for trace, event in calls:
        queue = queues.setdefault(trace.task, [])
        if len(queue) < limit:
            pair = (trace.session.evidence_id(event.step), trace.session.evidence_id(event.result_step))
            if pair not in queue:
                queue.append(pair)
    kept: list[str] = []
    for rank in range(limit):
        for task in sorted(queues):
            if rank < len(queues[task]) and len(kept) + 2 <= limit:
                kept.extend(queues[task][rank])
    return sorted(kept)


def examples_of(values: Iterable[JsonValue]) -> list[JsonValue]:
    """Return a few of the values, the same ones whatever their order."""
    return [value for _, value in sorted({canonical(value): value for value in values}.items())[:MAX_EXAMPLES]]


def schemas_of(traces: Iterable[Trace]) -> dict[str, ToolSchema]:
    """Return the schema of each tool; where sessions disagree, the one that most of the first sessions carry."""
    votes: dict[str, Counter[str]] = {}
    found: dict[tuple[str, str], ToolSchema] = {}
    sessions = {trace.order: trace.session for trace in islice(traces, MAX_VOTES)}
    for session in sessions.values():
        for schema in session.tools:
            text = json.dumps(schema.parameters, sort_keys=True)
            found.setdefault((schema.name, text), schema)
            votes.setdefault(schema.name, Counter())[text] += 1
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
