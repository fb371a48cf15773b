"""Calls of one tool whose arguments were all known before the first of them: one call with a list could make all.

An argument counts as known when it is a plain identifier (no prose, no expression) and none of its words was first
shown by a result or message between the first call and this one. Codes that the agent knows by itself ("JFK") are
known all along.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pydantic import JsonValue

from instar.engine.compiler.effects import CODING_AGENT_READS
from instar.engine.compiler.index import Event, Trace
from instar.engine.compiler.values import canonical

MAX_BATCH = 25
"""Calls after the first that are looked at."""

_PLAIN = re.compile(r"[\w#@:/-]+(?:\.[\w#@:/-]+)*", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9_#][A-Za-z0-9_#-]+")


def known_beforehand(found: Trace, position: int) -> list[Event]:
    """Return the successful call at `position` and the later, different ones of its tool that were known by then.

    Only calls up to the next write count. A list of one means that there is nothing to batch.
    """
    first = found.events[position]
    if not first.ok or first.effect != "read" or not _plain(first.arguments):
        return [first]
    group = [first]
    seen = {canonical(first.arguments)}
    for event in found.events[position + 1 : min(first.end, position + 1 + MAX_BATCH)]:
        if event.tool != first.tool or not event.ok or not _plain(event.arguments):
            continue
        key = canonical(event.arguments)
        if key in seen or set(event.arguments) != set(first.arguments):
            continue
        words = {word for value in event.arguments.values() for word in _WORD.findall(str(value))}
        shown = _among(words, found.said(first.step, event.step))
        if not shown or _among(shown, found.said(0, first.step)) == shown:
            seen.add(key)
            group.append(event)
    return group


def batches(found: Trace) -> list[list[Event]]:
    """Return the groups of two calls or more, each call in one group at most."""
    groups: list[list[Event]] = []
    taken: set[int] = set()
    tools: dict[str, int] = {}
    for event in found.events:
        tools[event.tool] = tools.get(event.tool, 0) + 1
    for event in found.events:
        if event.position in taken or tools[event.tool] < 2 or event.tool in CODING_AGENT_READS:
            continue
        group = [one for one in known_beforehand(found, event.position) if one.position not in taken]
        if len(group) > 1:
            groups.append(group)
            taken.update(one.position for one in group)
    found.texts.clear()
    return groups


def _plain(arguments: dict[str, JsonValue]) -> bool:
    """Whether all arguments are identifiers, codes, dates or numbers."""
    if not arguments:
        return False
    for value in arguments.values():
        if isinstance(value, bool) or value is None or isinstance(value, list | dict):
            return False
        if isinstance(value, str) and not (_PLAIN.fullmatch(value) and len(value) <= 80):
            return False
    return True


def _among(words: set[str], texts: Iterable[str]) -> set[str]:
    """Return the words that occur in one of the texts."""
    left = set(words)
    for text in texts:
        if not left:
            break
        left = {word for word in left if word not in text}
    return words - left
