"""Reads conditions out of a query with a model, where the rules find none; only with `rewrite = "model"`.

Whatever comes back narrows a search and nothing else: where nothing is found so, recall looks at everything, and says
how the query was understood. A search waits for a model only so long, and not again for a while after it did in vain.
"""

from __future__ import annotations

import re
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from pydantic import Field

from instar.core.slots import Slots
from instar.engine.llm.asker import Asker
from instar.engine.llm.errors import EndpointFailed, ModelError
from instar.engine.llm.shapes import Shape
from instar.memstore import State
from instar.memstore.recall import Filters
from instar.memstore.recall.rules import Rewriter, Rewritten, rewrite

_PROMPT = "model_recall.md.j2"
WITHIN = 8.0
"""Seconds that a search waits for a reading."""
_LEFT_ALONE = 30.0
"""Seconds for which a model that did not answer is not asked again."""
_WORD = re.compile(r"\w+")


class Reading(Shape):
    """What a model takes a query for."""

    text: str = Field(max_length=4_000)
    speaker: Literal["", "user", "assistant"]
    failed: bool
    tool: str = Field(max_length=200)
    since: str = Field(max_length=40)
    until: str = Field(max_length=40)


def model_rewriter(asker: Asker, *, within: float = WITHIN) -> Rewriter:
    """The rules, and a model where they read nothing out of a query; it has `within` seconds, all in all."""
    return _ByModel(_brief(asker, within), within).rewritten


@dataclass(slots=True)
class _ByModel:
    asker: Asker
    within: float
    _left_alone: float = 0.0
    """Until when, on the monotonic clock."""
    _why: str = field(default="", repr=False)

    def rewritten(self, query: str, filters: Filters, now: datetime) -> Rewritten:
        by_rules = rewrite(query, filters, now)
        if by_rules.rules or not query.strip():
            return by_rules
        here = now.astimezone()
        try:
            reading = self._asked(query, here)
        except (ModelError, TimeoutError) as error:
            return replace(by_rules, rules=(f"by words alone, since the model gave no reading: {error}",))
        return _checked(reading, query, filters, here)

    def _asked(self, query: str, here: datetime) -> Reading:
        """What the model says, within the time that it has.

        Raises:
            ModelError: it says nothing of use.
            TimeoutError: it does not say it in time, now or a moment ago.
        """
        if time.monotonic() < self._left_alone:
            raise TimeoutError(self._why)
        answer: Future[Reading] = Future()
        # In a thread: neither asking for a name nor waiting for a place among other callers can be told to hurry.
        threading.Thread(target=self._ask, args=(answer, query, here), daemon=True).start()
        try:
            return answer.result(self.within)
        except EndpointFailed as error:
            if error.stops:
                self._leave_alone(str(error))
            raise
        except TimeoutError:
            self._leave_alone(f"no answer within {self.within:g} s")
            raise TimeoutError(self._why) from None

    def _ask(self, answer: Future[Reading], query: str, here: datetime) -> None:
        stamp = here.isoformat(timespec="minutes")
        try:
            answer.set_result(
                self.asker.ask(
                    "judge", _PROMPT, Reading, document="recall", question=query, now=stamp, weekday=f"{here:%A}"
                )
            )
        except BaseException as error:  # noqa: BLE001  (raised again where the answer is awaited)
            answer.set_exception(error)

    def _leave_alone(self, why: str) -> None:
        self._left_alone = time.monotonic() + _LEFT_ALONE
        self._why = f"{why}; it is asked again after {_LEFT_ALONE:.0f} s"


def _brief(asker: Asker, within: float) -> Asker:
    """The same access, without patience: what nobody waits for any more must come to its end too."""
    own = asker.settings.judge
    longest = min(within, own.timeout_seconds or asker.settings.timeout_seconds)
    judge = own.model_copy(update={"timeout_seconds": longest})
    settings = asker.settings.model_copy(update={"judge": judge, "retries": 0})
    limiter = asker.limiter
    if isinstance(limiter, Slots):
        limiter = replace(limiter, patience=within)
    # Connections are shared with whoever closes the asker; which model answers for a role is settled anew.
    return replace(asker, settings=settings, limiter=limiter, _completers={})


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
