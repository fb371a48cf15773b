"""Grows one dataflow tree from all calls of one tool: greedily, follow-up by follow-up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pydantic import JsonValue

from instar.engine.compiler.claim import all_results
from instar.engine.compiler.firings import NEW, TIED, Firing, Growth, Option, Rejection, Tree, Use, firings_of
from instar.engine.compiler.index import Event, Trace
from instar.engine.compiler.judge import judge
from instar.engine.compiler.settings import MiningSettings
from instar.engine.compiler.values import (
    LIST,
    LOOPS,
    Scalar,
    bindable,
    canonical,
    collected,
    generalised,
    same,
    scalar_key,
)

LOOP_DISCOUNT = 0.8
"""A loop must explain a quarter more calls than a fixed place does."""
SEEDS = 4
"""Ways to bind a follow-up that are judged."""


def grow(tool: str, traces: Sequence[Trace], settings: MiningSettings) -> Tree:
    """Grow the tree of `tool`; its follow-ups are empty when nothing passed the filters."""
    tree = Tree(tool, firings_of(tool, traces))
    while len(tree.growths) + 1 < settings.max_nodes:
        best: tuple[tuple[int, float, int], Growth, dict[int, list[int]]] | None = None
        tree.rejections.clear()
        for (follow_up, _), uses in sorted(_uses(tree, settings).items()):
            for bindings in _candidates(uses):
                if _known(tree, follow_up, bindings):
                    continue
                likely = [use for use in uses if all(o in use.options[name] for name, o in bindings.items())]
                if best is not None and _score(tree, bindings, likely) <= best[0]:
                    continue
                judged = judge(tree, follow_up, bindings, likely, settings)
                if isinstance(judged, Rejection):
                    tree.rejections.append(judged)
                    continue
                growth, matched = judged
                score = (growth.tasks, growth.calls * _discount(bindings), growth.sessions)
                if best is None or score > best[0]:
                    best = (score, growth, matched)
        if best is None:
            break
        _, growth, matched = best
        tree.growths.append(growth)
        for index, positions in matched.items():
            firing = tree.firings[index]
            firing.nodes[growth.name] = positions
            firing.owner.update(dict.fromkeys(positions, growth.name))
    tree.predicted.clear()
    return tree


def _score(tree: Tree, bindings: dict[str, Option], likely: Sequence[Use]) -> tuple[int, float, int]:
    """The most that a follow-up can be worth: counts of calls, of which judging may turn some down."""
    traces = {tree.firings[use.firing].trace for use in likely if use.event.ok}
    return len({trace.task for trace in traces}), len(likely) * _discount(bindings), len(traces)


def _discount(bindings: dict[str, Option]) -> float:
    return LOOP_DISCOUNT ** sum(step in LOOPS for option in bindings.values() for step in option[2])


def _uses(tree: Tree, settings: MiningSettings) -> dict[tuple[str, tuple[str, ...]], list[Use]]:
    """Return the calls that follow and share a value with the tree, by tool and argument names."""
    grouped: dict[tuple[str, tuple[str, ...]], list[Use]] = {}
    for index, firing in enumerate(tree.firings):
        events = firing.events
        root = events[firing.root]
        shared: dict[tuple[str, Scalar] | None, str] = {
            scalar_key(value): name
            for name, value in sorted(root.arguments.items(), reverse=True)
            if isinstance(value, str | int | float) and bindable(value)
        }
        for at in firing.trace.window(firing.root, settings.window_steps):
            event = events[at]
            if at in firing.owner or event.effect != "read" or not event.arguments:
                continue
            if event.tool == root.tool and event.arguments == root.arguments:
                continue  # the first call once more
            linked = any(source in firing.owner for places in event.links.values() for source, _ in places)
            if not linked and not any(_key(value) in shared for value in event.arguments.values()):
                continue
            options: dict[str, set[Option]] = {}
            for name, value in event.arguments.items():
                found = set(_places(tree, firing, event, name))
                twin = shared.get(_key(value))
                if twin is not None:
                    found.add(("argument", twin, ()))
                found.add(("constant", canonical(value), ()))
                found.add(NEW)
                options[name] = found
            grouped.setdefault((event.tool, tuple(sorted(event.arguments))), []).append(Use(index, event, options))
    return grouped


def _places(tree: Tree, firing: Firing, event: Event, name: str) -> Iterator[Option]:
    """Yield the places in the tree's results that hold the argument."""
    if isinstance(event.arguments[name], list):
        yield from _gathered(tree, firing, event, name)
        return
    for source, path in event.links.get(name, ()):
        owner = firing.owner.get(source)
        if owner is not None:
            yield from (("result", owner, variant) for variant in generalised(path))


def _gathered(tree: Tree, firing: Firing, event: Event, name: str) -> Iterator[Option]:
    """Yield the ways to gather exactly the list that the argument is, from one result of the tree or from several."""
    for source, path in event.links.get(name, ()):
        owner = firing.owner.get(source)
        if owner is None:
            continue
        looped = any(growth.looped and growth.name == owner for growth in tree.growths)
        results = all_results(tree, firing, owner) if looped else None
        for variant in generalised(path):
            loops = any(step in LOOPS for step in variant)
            if loops and same(collected([firing.events[source].value], variant), event.arguments[name]):
                yield "each", owner, variant
            if results is not None and same(collected(results, variant), event.arguments[name]):
                yield "all", owner, variant


def _key(value: JsonValue) -> tuple[str, Scalar] | None:
    return scalar_key(value) if isinstance(value, str | int | float) else None


def _candidates(uses: Sequence[Use]) -> Iterator[dict[str, Option]]:
    """Yield ways to bind the arguments, the one that explains most calls first."""
    seeds = Counter(
        (name, option)
        for use in uses
        for name, options in use.options.items()
        for option in options
        if option[0] in TIED
    )
    ranked = sorted(seeds, key=lambda seed: (-_weight(seed[1], seeds[seed]), _order(seed[1]), seed[0]))
    seen: list[dict[str, Option]] = []
    for name, option in ranked[:SEEDS]:
        bindings = _complete(name, option, uses)
        if bindings is not None and bindings not in seen:
            seen.append(bindings)
            yield bindings


def _known(tree: Tree, tool: str, bindings: dict[str, Option]) -> bool:
    """Whether a follow-up repeats one in the tree, but for a first place instead of the loop, or the other way."""

    def blurred(found: dict[str, Option]) -> dict[str, tuple[str, str, list[str | int]]]:
        return {
            name: (kind, source, [LIST if step == 0 else step for step in path])
            for name, (kind, source, path) in found.items()
        }

    return any(g.tool == tool and blurred(g.bindings) == blurred(bindings) for g in tree.growths)


def _complete(name: str, option: Option, uses: Sequence[Use]) -> dict[str, Option] | None:
    bindings = {name: option}
    left = [use for use in uses if option in use.options[name]]
    for argument in sorted(left[0].options):
        if argument in bindings:
            continue
        counts = Counter(option for use in left for option in use.options[argument] if option[0] != "new")
        tied = {o: n for o, n in counts.items() if o[0] in TIED}
        constant = {o: n for o, n in counts.items() if o[0] == "constant"}
        chosen = NEW
        if tied:
            best = min(tied, key=lambda o: (-_weight(o, tied[o]), _order(o)))
            if tied[best] >= 0.6 * len(left):
                chosen = best
        if chosen == NEW and constant:
            best = min(constant, key=lambda o: (-constant[o], o))
            if constant[best] >= 0.9 * len(left):
                chosen = best
        if chosen == NEW and NEW in bindings.values():
            return None
        if chosen == NEW and option[0] == "argument":
            return None
        bindings[argument] = chosen
        left = [use for use in left if chosen in use.options[argument]]
    return bindings


def _weight(option: Option, count: int) -> float:
    return count * LOOP_DISCOUNT ** sum(step in LOOPS for step in option[2])


def _order(option: Option) -> tuple[int, list[str], str, str]:
    return len(option[2]), [str(step) for step in option[2]], option[1], option[0]
