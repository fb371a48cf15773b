"""Decides whether a follow-up is believed: support, distinct values, confidence, loops, chance agreement."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pydantic import JsonValue

from instar.engine.compiler.claim import Bindings, Claim
from instar.engine.compiler.firings import Firing, Growth, Key, Rejection, Tree, Use
from instar.engine.compiler.index import Trace
from instar.engine.compiler.settings import MiningSettings
from instar.engine.compiler.values import (
    KEYS,
    LOOPS,
    VALUES,
    reach,
)

NULL_SAMPLES = 3
"""Other tasks' firings that each firing is compared with."""
MAX_TRIES = 64
RECORD = 0.6
"""A mapping whose commonest key is in this share of its occurrences is a record, not a collection."""


def judge(
    tree: Tree, tool: str, bindings: Bindings, likely: Sequence[Use], settings: MiningSettings
) -> tuple[Growth, dict[int, list[int]]] | Rejection:
    """Return the follow-up with the calls it explains per firing, or why it is not believed.

    `likely` are the calls each of whose arguments, taken by itself, may come from where the bindings say.
    """
    claim = Claim(tree, bindings)
    if problem := claim.problem():
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
    loops = any(step in LOOPS for kind, _, path in bindings.values() for step in path if kind == "result")
    lists = [name for name, option in bindings.items() if option[0] in {"each", "all"}]
    reason = ""
    if confidence < settings.min_confidence:
        reason = f"followed in {len(seen)} of {able} firings"
    elif null_rate > settings.max_null_rate:
        reason = f"null rate {null_rate:.2f}: the same values occur in other tasks"
    elif loops:
        reason = _weak_loop(claim, matched, seen, settings) or _records(claim, seen)
    elif lists:
        reason = _weak_lists(claim, lists, matched, settings) or _records(claim, seen)
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
        stage=claim.stage,
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
    for kind, node, path in claim.results():
        for at in firing.nodes.get(node, ()) if kind == "result" else ():
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


def _weak_lists(claim: Claim, lists: Sequence[str], matched: dict[int, list[int]], settings: MiningSettings) -> str:
    """Say that a list was too seldom one of several items, if so: a list of one shows no gathering."""
    several: dict[str, set[str]] = {name: set() for name in lists}
    for index, positions in matched.items():
        firing = claim.tree.firings[index]
        for name in lists:
            values = [firing.events[at].arguments[name] for at in positions]
            if any(isinstance(value, list) and len(value) > 1 for value in values):
                several[name].add(firing.trace.order)
    fewest = min(map(len, several.values()))
    return (
        "" if fewest >= settings.min_loop_sessions else f"a list of two items or more was seen in {fewest} sessions"
    )


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
