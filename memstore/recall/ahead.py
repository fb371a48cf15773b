"""Recall without being asked: what a session begins with, and what it may need next.

The first words of the user are taken for the task, which is primed from what was learned and from recent steps. After
that each turn is followed by what goes with its last event, or with the next steps of its plan. A page was of use
where it was asked for, or where one of the agent's next events names something of it, such as a file or a number,
that nothing in the session had named before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Container, Mapping, Sequence
from contextlib import suppress
from itertools import islice

from pydantic import JsonValue

from instar.memstore.errors import MemstoreError
from instar.memstore.foresight import Recollection
from instar.memstore.pages import Level, Page, PageType
from instar.memstore.recall.answers import Hit
from instar.memstore.recall.context import framed
from instar.memstore.recall.documents import speaker_of, spoken
from instar.memstore.recall.errors import IndexFailed
from instar.memstore.recall.layers import prime
from instar.memstore.recall.prefetch import Prefetch, Step
from instar.memstore.recall.recall import Recall
from instar.memstore.scopes import Principal

AHEAD = "ahead"
"""Under this name and a scope the counts are kept beside the index."""
PRIMED = "task"
"""How the pages are counted that a session begins with. They come once, and are never given up."""
WITHIN = 10
"""So many of the agent's next events may make use of a page."""
_FADES_AT = 1_000
_READ, _NAMES = 20_000, 500
_NAME = re.compile(r"[\w@#][\w./@:#-]{2,78}\w")
_DISTINCT = re.compile(r"[\d_@/.]")

Counts = Mapping[str, tuple[int, int]]


class Ahead:
    """Foresight for one session. An index or a store that is away costs pages, never the session."""

    def __init__(
        self,
        recall: Recall,
        by: Principal,
        *,
        scope: str,
        session: str,
        task: str = "",
        topics: Sequence[str] = (),
        limit: int = 4,
        trial: int = 100,
    ) -> None:
        """Pages in and below `scope` that the principal may read. `topics` are what tasks of this kind always ask
        about; `task` stands for the first words of the user, where it is known before them."""
        self._recall, self._by, self._scope, self._session = recall, by, scope, session
        self._topics, self._limit = topics, limit
        self._before, turns = kept_counts(recall, scope)
        self._prefetch = Prefetch(recall, by, scope, trial=trial, counts=self._before, turns=turns)
        self._turns = turns
        self._task, self._primed = task, False
        self._event: Page | None = None
        self._plan: Page | None = None
        self._named: set[str] = set()
        self._waiting: dict[str, tuple[frozenset[str], int]] = {}
        self._acts = 0
        self.problem = ""
        """Why nothing was fetched the last time; empty when all is well."""

    def heard(self, page: Page) -> None:
        """Take note of an event: what it names, and what is to be looked for next."""
        if page.session != self._session:
            return
        speaker = speaker_of(page)
        acted = _acted(page)
        if acted:
            self._acts += 1
            self.used(self._used_by(acted))
        self._named |= names_in(spoken(page))
        if page.type is PageType.PLAN:
            self._plan = page
        elif speaker == "user" and not self._task:
            self._task = page.text
        elif page.type in (PageType.EVIDENCE, PageType.CONVERSATION):
            self._event = page

    def fetch(self, held: Container[str]) -> Sequence[Recollection]:
        """What the task needs, once; then what the plan says, or what goes with the last event."""
        try:
            hits = self._hits(held)
        except MemstoreError as error:
            self.problem = str(error)
            return ()
        self.problem = ""
        for hit in hits:
            fresh = names_in(spoken(hit.page)) - self._named
            self._waiting[hit.page.id] = (frozenset(fresh), self._acts + WITHIN)
        return [recollection(hit) for hit in hits]

    def used(self, page_ids: Collection[str]) -> None:
        """These were of use."""
        self._prefetch.used(page_ids)
        for page_id in page_ids:
            self._waiting.pop(page_id, None)

    def counts(self) -> Counts:
        """For each way of guessing, how many pages this session fetched, and how many were of use."""
        found = self._prefetch.counts().items()
        own = {way: _less(count, self._before.get(way, (0, 0))) for way, count in found}
        return {way: count for way, count in own.items() if count[0] or count[1]}

    def close(self) -> None:
        """Keep the counts for the sessions that come. What cannot be kept is forgotten."""
        own, turns = self.counts(), self._prefetch.turns - self._turns
        self._before, self._turns = self._prefetch.counts(), self._prefetch.turns
        if own:
            with suppress(MemstoreError):
                _keep_counts(self._recall, self._scope, own, turns)

    def _hits(self, held: Container[str]) -> list[Hit]:
        if self._task and not self._primed:
            self._primed = True
            return self._begin(held)
        plan, self._plan = self._plan, None
        if plan is not None and (steps := steps_of(plan.content)):
            done = plan.content.get("done")
            finished = [name for name in done if isinstance(name, str)] if isinstance(done, list) else []
            pages = self._prefetch.ahead(steps, finished, limit=self._limit, held=held)
        elif self._event is not None:
            event, self._event = self._event, None
            pages = self._prefetch.around(event, limit=self._limit, held=held, elsewhere=True)
        else:
            return []
        return self._others(self._recall.told(self._by, pages, scope=self._scope), held)

    def _begin(self, held: Container[str]) -> list[Hit]:
        primed = prime(self._recall, self._by, self._task, scope=self._scope, limit=self._limit)
        hits = self._others(primed.answer.hits, held)
        self._prefetch.given(PRIMED, [hit.page.id for hit in hits])
        if self._topics:
            known = {hit.page.id for hit in hits}
            warm = [page for page in self._prefetch.warm(self._topics, held=held) if page.id not in known]
            hits += self._others(self._recall.told(self._by, warm, scope=self._scope), held)
        self._event = None  # the task was the last event
        return hits

    def _others(self, hits: Sequence[Hit], held: Container[str]) -> list[Hit]:
        return [hit for hit in hits if hit.page.session != self._session and hit.page.id not in held]

    def _used_by(self, text: str) -> list[str]:
        self._waiting = {page_id: one for page_id, one in self._waiting.items() if one[1] >= self._acts}
        names = names_in(text)
        return [page_id for page_id, (fresh, _) in self._waiting.items() if fresh & names]


def recollection(hit: Hit) -> Recollection:
    """A hit in its frame, shortened and whole."""
    return Recollection(hit.page, {level: framed(hit, level) for level in (Level.COMPRESSED, Level.FULL)})


def names_in(text: str) -> frozenset[str]:
    """What a text names that is no ordinary word: files without their folders, numbers, identifiers, addresses."""
    found = (match.group() for match in _NAME.finditer(text[:_READ]))
    distinct = (name.rpartition("/")[2] or name for name in found if _DISTINCT.search(name))
    return frozenset(islice((name for name in distinct if len(name) > 3), _NAMES))


def steps_of(content: Mapping[str, JsonValue]) -> list[Step]:
    """The steps of a plan's page: `steps` as a list of texts, each after the one before, or of `name`, `needs` and
    `after`; else the text of `step`, or of the `goal`."""
    steps = content.get("steps")
    found: list[Step] = []
    for one in steps if isinstance(steps, list) else ():
        if isinstance(one, str):
            found.append(Step(one, one, (found[-1].name,) if found else ()))
        elif isinstance(one, dict) and isinstance(name := one.get("name"), str):
            needs, after = one.get("needs"), one.get("after")
            behind = tuple(each for each in after if isinstance(each, str)) if isinstance(after, list) else ()
            found.append(Step(name, needs if isinstance(needs, str) else name, behind))
    if not found:
        now = next((text for name in ("step", "goal") if isinstance(text := content.get(name), str) and text), "")
        return [Step(now, now)] if now else []
    return found


def kept_counts(recall: Recall, scope: str) -> tuple[Counts, int]:
    """What the sessions of a scope counted so far, and over how many turns; nothing where it cannot be read."""
    try:
        kept = json.loads(recall.upkeep.words.settings().get(f"{AHEAD}:{scope}", "{}"))
        ways = {str(way): (int(fetched), int(used)) for way, (fetched, used) in dict(kept.get("ways", {})).items()}
        return ways, int(kept.get("turns", 0))
    except (IndexFailed, ValueError, TypeError, AttributeError):
        return {}, 0


def _keep_counts(recall: Recall, scope: str, own: Counts, turns: int) -> None:
    before, counted = kept_counts(recall, scope)
    ways: dict[str, tuple[int, int]] = {}
    for way in before.keys() | own.keys():
        (fetched, used), (more, hits) = before.get(way, (0, 0)), own.get(way, (0, 0))
        total = (fetched + more, used + hits)
        ways[way] = total if total[0] <= _FADES_AT else (total[0] // 2, total[1] // 2)
    recall.upkeep.words.remember(f"{AHEAD}:{scope}", json.dumps({"ways": ways, "turns": counted + turns}))


def _acted(page: Page) -> str:
    """What the agent itself said or asked for; empty where it was somebody else."""
    arguments = page.content.get("arguments")
    if isinstance(arguments, dict):
        return json.dumps(arguments, ensure_ascii=False)[:_READ]
    return page.text if speaker_of(page) == "assistant" else ""


def _less(count: tuple[int, int], before: tuple[int, int]) -> tuple[int, int]:
    return count[0] - before[0], count[1] - before[1]
