"""A follow-up under judgement: where its arguments come from, and the calls that this predicts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pydantic import JsonValue

from instar.engine.compiler.firings import RESULTS, TIED, Firing, Key, Option, Tree
from instar.engine.compiler.values import LOOPS, Missing, Path, canonical, collected, elements, step_into

MAX_ROWS = 2_000
"""Items of one result that a binding is followed through."""
MAX_SAMPLE = 300
"""Firings that shares are estimated on; support is counted on all."""

Bindings = dict[str, Option]


@dataclass(slots=True)
class Claim:
    """A follow-up under judgement, with the argument values that it predicts for each firing."""

    tree: Tree
    bindings: Bindings
    tied: list[str] = field(init=False)
    cache: dict[int, set[Key]] = field(init=False)

    def __post_init__(self) -> None:
        self.tied = sorted(name for name, option in self.bindings.items() if option[0] in TIED)
        self.cache = self.tree.predicted.setdefault(tuple((name, self.bindings[name]) for name in self.tied), {})

    def key(self, arguments: dict[str, JsonValue]) -> Key:
        """Return the part of a call's arguments that the claim predicts."""
        values = ((name, arguments[name]) for name in self.tied)
        return tuple((type(v).__name__, canonical(v) if isinstance(v, list) else v) for _, v in values)

    def rows(self, index: int) -> set[Key]:
        """Return the predicted keys of one firing: all arguments of a row come from the same item of a loop."""
        if index not in self.cache:
            self.cache[index] = set(self.in_order(self.tree.firings[index]))
        return self.cache[index]

    def sample(self) -> range:
        """Return the firings that shares are estimated on; sessions come in the order of hashes."""
        return range(min(len(self.tree.firings), MAX_SAMPLE))

    def in_order(self, firing: Firing) -> list[Key]:
        """Return the predicted keys of one firing in the order of the loops, repetitions included."""
        return [self.key(row) for row in self._rows(firing) if all(self._fits(*item) for item in row.items())]

    def _rows(self, firing: Firing) -> Iterator[dict[str, JsonValue]]:
        given = firing.events[firing.root].arguments
        fixed: dict[str, JsonValue] = {}
        moving: dict[str, Path] = {}
        gathered: dict[str, Path] = {}
        source = self.source
        for name in self.tied:
            kind, node, path = self.bindings[name]
            if kind == "argument":
                fixed[name] = given.get(node)
            elif kind == "all":
                fixed[name] = [*collected(all_results(self.tree, firing, node) or [], path)]
            elif node == source:
                (moving if kind == "result" else gathered)[name] = path
            elif kind == "each":
                calls = firing.nodes.get(node, ())
                fixed[name] = [*collected([firing.events[at].value for at in calls if len(calls) == 1], path)]
            else:
                values = firing.reached(node, path)
                fixed[name] = values[0] if len(values) == 1 else None
        if not moving and not gathered:
            yield fixed
            return
        for at in ordered(self.tree, firing, source):
            value = firing.events[at].value
            lists: dict[str, JsonValue] = {name: [*collected([value], path)] for name, path in gathered.items()}
            for row in joined(value, moving):
                yield fixed | lists | row

    def _fits(self, name: str, value: JsonValue) -> bool:
        if self.bindings[name][0] in {"each", "all"}:
            return isinstance(value, list) and bool(value)
        return _scalar(value)

    @property
    def source(self) -> str:
        """The one node whose result may be looped over."""
        singles = [option for option in self.results() if option[0] != "all"]
        nodes = [(node, kind == "result" and any(step in LOOPS for step in path)) for kind, node, path in singles]
        looping = [node for node, loops in nodes if loops]
        return (looping or [node for node, _ in reversed(nodes)] or [""])[0]

    def results(self) -> list[Option]:
        """Return the bindings to results."""
        return [option for _, option in sorted(self.bindings.items()) if option[0] in RESULTS]

    @property
    def stage(self) -> int:
        """How many rounds of loops must have ended: gathering from all results of a loop waits for it."""
        grown = {growth.name: growth for growth in self.tree.growths}
        return max(
            (grown[node].stage + (kind == "all") if node in grown else 0 for kind, node, _ in self.results()),
            default=0,
        )

    def problem(self) -> str:
        """Say what makes the claim impossible to write down as loops that nest, or return nothing."""
        looped = {growth.name: growth.stage for growth in self.tree.growths if growth.looped}
        paths = [path for kind, node, path in self.results() if node == self.source and kind == "result"]
        for kind, node, path in self.results():
            if kind == "all":
                continue
            loops = node in looped or (kind == "result" and any(step in LOOPS for step in path))
            if (node != self.source and loops) or looped.get(node, self.stage) != self.stage:
                return "its arguments come from different loops"
        heads = sorted((_head(path) for path in paths), key=len)
        if any(heads[-1][: len(head)] != head for head in heads):
            return "its arguments come from different loops"
        return ""


def ordered(tree: Tree, firing: Firing, node: str) -> list[int]:
    """Return the recorded calls of a node in the order in which a plan would make them."""
    positions = firing.nodes.get(node, [])
    growth = next((growth for growth in tree.growths if growth.name == node and growth.looped), None)
    if growth is None or len(positions) < 2:
        return positions
    claim = Claim(tree, growth.bindings)
    rank = {key: at for at, key in enumerate(dict.fromkeys(claim.in_order(firing)))}
    return sorted(positions, key=lambda at: (rank.get(claim.key(firing.events[at].arguments), len(rank)), at))


def all_results(tree: Tree, firing: Firing, node: str) -> list[JsonValue] | None:
    """Return the results of a looped node in a plan's order, or None where the agent left out a part of the loop."""
    growth = next(growth for growth in tree.growths if growth.name == node)
    claim = Claim(tree, growth.bindings)
    positions = ordered(tree, firing, node)
    called = {claim.key(firing.events[at].arguments) for at in positions}
    if not called.issuperset(claim.in_order(firing)):
        return None
    return [firing.events[at].value for at in positions]


def _head(path: Path) -> Path:
    """The part of a path up to its last loop."""
    return path[: max((i + 1 for i, step in enumerate(path) if step in LOOPS), default=0)]


def joined(value: JsonValue, paths: dict[str, Path]) -> list[dict[str, JsonValue]]:
    """Return one row per item of the loops that the paths share; a value that is absent is None."""
    looping = {name: path for name, path in paths.items() if any(step in LOOPS for step in path)}
    fixed = {name: _follow(value, path) for name, path in paths.items() if name not in looping}
    if not looping:
        return [fixed]
    path = min(looping.values(), key=lambda p: next(i for i, step in enumerate(p) if step in LOOPS))
    first = next(i for i, step in enumerate(path) if step in LOOPS)
    inner = {name: p[first + 1 :] for name, p in looping.items() if p[: first + 1] == path[: first + 1]}
    try:
        items = elements(_follow(value, path[:first]), path[first])
    except Missing:
        return []
    rows: list[dict[str, JsonValue]] = []
    for item in items:
        rows += [fixed | row for row in joined(item, inner)]
        if len(rows) > MAX_ROWS:
            break
    return rows


def _scalar(value: JsonValue) -> bool:
    return value is not None and not isinstance(value, list | dict)


def _follow(value: JsonValue, path: Path) -> JsonValue:
    try:
        for step in path:
            value = step_into(value, step)
    except Missing:
        return None
    return value
