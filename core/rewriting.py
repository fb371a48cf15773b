"""Reads conditions out of a query with a model, where the rules find none; only with `rewrite = "model"`.

Whatever comes back narrows a search and nothing else: where nothing is found so, recall looks at everything, and says
how the query was understood.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import Literal

from pydantic import Field

from instar.engine.llm.asker import Asker
from instar.engine.llm.errors import ModelError
from instar.engine.llm.shapes import Shape
from instar.memstore import State
from instar.memstore.recall import Filters
from instar.memstore.recall.rules import Rewriter, Rewritten, rewrite

_PROMPT = "model_recall.md.j2"
_WORD = re.compile(r"\w+")


class Reading(Shape):
    """What a model takes a query for."""

    text: str = Field(max_length=4_000)
    speaker: Literal["", "user", "assistant"]
    failed: bool
    tool: str = Field(max_length=200)
    since: str = Field(max_length=40)
    until: str = Field(max_length=40)


def model_rewriter(asker: Asker) -> Rewriter:
    """The rules, and a model where they read nothing out of a query."""
    return lambda query, filters, now: _rewritten(asker, query, filters, now)


def _rewritten(asker: Asker, query: str, filters: Filters, now: datetime) -> Rewritten:
    by_rules = rewrite(query, filters, now)
    if by_rules.rules or not query.strip():
        return by_rules
    here = now.astimezone()
    stamp = here.isoformat(timespec="minutes")
    try:
        reading = asker.ask(
            "judge", _PROMPT, Reading, document="recall", question=query, now=stamp, weekday=f"{here:%A}"
        )
    except ModelError as error:
        return replace(by_rules, rules=(f"by words alone, since the model gave no reading: {error}",))
    return _checked(reading, query, filters, here)


def _checked(reading: Reading, query: str, filters: Filters, now: datetime) -> Rewritten:
    """What of a reading stands in the query; a filter that the caller gave is never changed."""
    told: list[str] = []
    if reading.speaker and filters.speaker is None:
        filters = replace(filters, speaker=reading.speaker)
        told.append(f"said by the {reading.speaker}")
    if reading.failed and filters.state is None:
        filters = replace(filters, state=State.ERROR)
        told.append("state error")
    if reading.tool and reading.tool in query and filters.tool is None:
        filters = replace(filters, tool=reading.tool)
        told.append(f"tool {reading.tool}")
    since, until = _time(reading.since, now), _time(reading.until, now)
    if filters.since is None and filters.until is None and (since or until) and (not since or since < (until or now)):
        filters = replace(filters, since=since, until=until)
        told += [f"{word} {time:%Y-%m-%d %H:%M}" for word, time in (("since", since), ("until", until)) if time]
    known = set(_WORD.findall(query.lower()))
    kept = told and reading.text.strip() and known.issuperset(_WORD.findall(reading.text.lower()))
    return Rewritten(reading.text.strip() if kept else query, filters, tuple(told))


def _time(text: str, now: datetime) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=now.tzinfo)).astimezone(now.tzinfo)
    except (ValueError, OverflowError):
        return None
