"""Decides whether a follow-up is believed: support, distinct values, confidence, loops, chance agreement."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from instar.engine.compiler.firings import Firing, Growth, Key, Option, Rejection, Tree, Use
from instar.engine.compiler.index import Trace
from instar.engine.compiler.settings import MiningSettings
from instar.engine.compiler.values import KEYS, LOOPS, VALUES, Missing, Path, elements, reach, step_into

NULL_SAMPLES = 3
"""Other tasks' firings that each firing is compared with."""
MAX_TRIES = 64
MAX_ROWS = 2_000
"""Items of one result that a binding is followed through."""
RECORD = 0.6
"""A mapping whose commonest key is in this share of its occurrences is a record, not a collection."""

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
        self.tied = sorted(name for name, option in self.bindings.items() if option[0] in {"result", "argument"})
        self.cache = self.tree.predicted.setdefault(tuple((name, self.bindings[name]) for name in self.tied), {})

    def key(self, arguments: dict[str, JsonValue]) -> Key:
        """Return the part of a call's arguments that the claim predicts."""
        return tuple((type(arguments[name]).__name__, arguments[name]) for name in self.tied)

    def rows(self, index: int) -> set[Key]:
        """Return the predicted keys of one firing: all arguments of a row come from the same item of a loop."""
        if index not in self.cache:
            rows = self._rows(self.tree.firings[index])
            self.cache[index] = {self.key(row) for row in rows if all(_scalar(value) for value in row.values())}
        return self.cache[index]

    def sample(self) -> range:
        """Return the firings that shares are estimated on; sessions come in the order of hashes."""
        return range(min(len(self.tree.firings), MAX_SAMPLE))

    def _rows(self, firing: Firing) -> Iterator[dict[str, JsonValue]]:
        given = firing.events[firing.root].arguments
        fixed: dict[str, JsonValue] = {}
        moving: dict[str, Path] = {}
        source = ""
        for name in self.tied:
            kind, node, path = self.bindings[name]
            if kind == "argument":
                fixed[name] = given.get(node)
            elif node == self.source:
                moving[name], source = path, node
            else:
                values = firing.reached(node, path)
                fixed[name] = values[0] if len(values) == 1 else None
        if not moving:
            yield fixed
            return
        for at in firing.nodes.get(source, ()):
            for row in joined(firing.events[at].value, moving):
                yield fixed | row

    @property
    def source(self) -> str:
        """The one node whose result may be looped over."""
        nodes = [(option[1], any(step in LOOPS for step in option[2])) for option in self.results()]
        looping = [node for node, loops in nodes if loops]
        return (looping or [node for node, _ in reversed(nodes)] or [""])[0]

    def results(self) -> list[Option]:
        """Return the bindings to results."""
        return [option for _, option in sorted(self.bindings.items()) if option[0] == "result"]

    def problem(self, collected: set[str]) -> str:
        """Say what makes the claim impossible to write down as loops that nest, or return nothing."""
        paths = [path for kind, node, path in self.results() if node == self.source]
        for _, node, path in self.results():
            if node != self.source and (node in collected or any(step in LOOPS for step in path)):
                return "its arguments come from different loops"
        heads = sorted((_head(path) for path in paths), key=len)
        if any(heads[-1][: len(head)] != head for head in heads):
            return "its arguments come from different loops"
        return ""


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


def judge(
    tree: Tree, tool: str, bindings: Bindings, likely: Sequence[Use], settings: MiningSettings
) -> tuple[Growth, dict[int, list[int]]] | Rejection:
    """Return the follow-up with the calls it explains per firing, or why it is not believed.

    `likely` are the calls each of whose arguments, taken by itself, may come from where the bindings say.
    """
    claim = Claim(tree, bindings)
    if problem := claim.problem({growth.name for growth in tree.growths if growth.looped}):
        return Rejection(tool, 0, problem)
    matched: dict[int, list[int]] = {}
    failed: set[int] = set()
    values: set[Key] = set()
    firings = tree.firings
    if reason := _thin({firings[use.firing].trace for use in likely if use.event.ok}, settings):
        return Rejection(tool, len({firings[use.firing].trace.task for use in likely}), reason)
    for use in likely:
        key = claim.key(use.event.arguments)
        if len(claim.tied) > 1 and key not in claim.rows(use.firing):
            continue
        if not use.event.ok:
            failed.add(use.firing)
            continue
        matched.setdefault(use.firing, []).append(use.event.position)
        values.add(key)
    traces = {firings[index].trace for index in matched}
    tasks = {trace.task for trace in traces}
    if reason := _thin(traces, settings) or _uniform(values, settings):
        return Rejection(tool, len(tasks), reason)
    rows = {index: claim.rows(index) for index in claim.sample()}
    seen = {index: found for index, found in matched.items() if index in rows} or matched
    able = max(sum(1 for index, found in rows.items() if found or index in matched), len(seen))
    called = sum(len({claim.key(firings[i].events[at].arguments) for at in found}) for i, found in seen.items())
    offered = max(sum(map(len, rows.values())), called)
    confidence = len(seen) / able * (len(matched) / (len(matched) + len(failed - set(matched))))
    null_rate = _null_rate(claim, seen)
    loops = any(step in LOOPS for option in bindings.values() for step in option[2])
    reason = ""
    if confidence < settings.min_confidence:
        reason = f"followed in {len(seen)} of {able} firings"
    elif null_rate > settings.max_null_rate:
        reason = f"null rate {null_rate:.2f}: the same values occur in other tasks"
    elif loops:
        reason = _weak_loop(claim, matched, seen, settings) or _records(claim, seen)
    if reason:
        return Rejection(tool, len(tasks), reason)
    growth = Growth(
        name=f"n{len(tree.growths) + 1}",
        tool=tool,
        bindings=bindings,
        sessions=len(traces),
        tasks=len(tasks),
        calls=sum(map(len, matched.values())),
        confidence=round(confidence, 4),
        wanted=round(called / offered, 4),
        null_rate=round(null_rate, 4),
        absent=any(_absent(firing, claim) for firing in tree.firings),
        looped=loops or any(g.looped and g.name == claim.source for g in tree.growths),
    )
    return growth, matched


def _thin(traces: Collection[Trace], settings: MiningSettings) -> str:
    tasks = {trace.task for trace in traces}
    enough = len(traces) >= settings.min_sessions and len(tasks) >= settings.min_tasks
    return "" if enough else f"seen in {len(traces)} sessions and {len(tasks)} tasks"


def _uniform(values: Collection[Key], settings: MiningSettings) -> str:
    return f"only {len(values)} distinct values" if len(values) < settings.min_values else ""


def _absent(firing: Firing, claim: Claim) -> bool:
    """Whether a part that the follow-up needs was missing or null in a result that should hold it."""
    for _, node, path in claim.results():
        for at in firing.nodes.get(node, ()):
            parts: list[JsonValue] = [firing.events[at].value]
            for step in path:
                if step in LOOPS and all(part in ([], {}) for part in parts):
                    parts = []
                    break
                following = [found for part in parts for found in reach(part, (step,))]
                if not following or (step not in LOOPS and len(following) < len(parts)):
                    return True
                parts = following
            if None in parts:
                return True
    return False


def _weak_loop(
    claim: Claim, matched: dict[int, list[int]], seen: dict[int, list[int]], settings: MiningSettings
) -> str:
    several: set[str] = set()
    for index, positions in matched.items():
        firing = claim.tree.firings[index]
        if len(positions) > 1 and len({claim.key(firing.events[at].arguments) for at in positions}) > 1:
            several.add(firing.trace.order)
    if len(several) < settings.min_loop_sessions:
        return f"a loop over two items or more was seen in {len(several)} sessions"
    shares = [
        len({claim.key(claim.tree.firings[index].events[at].arguments) for at in positions})
        / max(len(claim.rows(index)), 1)
        for index, positions in seen.items()
    ]
    share = sum(shares) / len(shares)
    return f"only {share:.0%} of the items were wanted" if share < settings.min_loop_share else ""


def _records(claim: Claim, matched: dict[int, list[int]]) -> str:
    """Say that a loop would run over the fields of a record, if it would."""
    for _, node, path in claim.results():
        for depth, step in enumerate(path):
            if step not in {KEYS, VALUES}:
                continue
            seen: dict[str, int] = {}
            total = 0
            for index in sorted(matched)[:MAX_TRIES]:
                for mapping in claim.tree.firings[index].reached(node, path[:depth]):
                    if isinstance(mapping, dict) and mapping:
                        total += 1
                        for key in mapping:
                            seen[key] = seen.get(key, 0) + 1
            if total and max(seen.values()) >= RECORD * total:
                return "the values come from different fields of one record"
    return ""


def _null_rate(claim: Claim, matched: dict[int, list[int]]) -> float:
    """How often the bindings also hold against a firing of another task."""
    order = sorted(matched)
    firings = claim.tree.firings
    held = compared = 0
    for rank, index in enumerate(order):
        others: list[int] = []
        for distance in range(1, min(len(order), MAX_TRIES)):
            other = order[(rank + distance * 7919) % len(order)]
            if firings[other].trace.task != firings[index].trace.task and other not in others:
                others.append(other)
                if len(others) == NULL_SAMPLES:
                    break
        for other in others:
            for at in matched[index]:
                compared += 1
                held += claim.key(firings[index].events[at].arguments) in claim.rows(other)
    return held / compared if compared else 1.0
