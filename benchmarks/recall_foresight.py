"""Recorded Claude Code sessions through the harness: of the pages that came unasked, which were of use?

Every session is lived through again, message by message and call by call, with a context before each call. What the
sessions before it recorded is all that is known. A page was of use by the rule of the product: the agent soon names
something of it that its session had not named before. Beside it, by the same rule, the newest pages of others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from benchmarks.result import progress
from instar.memstore import Harness, Page, Principal, Store, open_store
from instar.memstore.recall import Recall, open_recall
from instar.memstore.recall.ahead import WITHIN, Ahead, names_in
from instar.memstore.recall.documents import spoken

BY = Principal("benchmark", ("lived",))
BUDGET, LIMIT = 4_000, 4
_LONGEST = 20_000


def measure(sessions: Sequence[Sequence[Page]], *, calls: int) -> tuple[dict[str, float], dict[str, float]]:
    """The share of use of all pages and by the way in which they were guessed, and how many a session was given.

    Faults must not come of it: they are counted as well.
    """
    fetched: Counter[str] = Counter()
    used: Counter[str] = Counter()
    base = [0, 0]
    faults = lived = made = 0
    with open_store("memory:") as store, open_recall(store, address="memory:", folder=None) as recall:
        for number, steps in enumerate(sessions):
            if made >= calls:
                break
            session = _Lived(store, recall, f"s{number}")
            made += session.live(steps[: _last(steps, calls - made)])
            lived += 1
            for way, (count, hits) in session.counts.items():
                fetched[way] += count
                used[way] += hits
            faults += session.faults
            base[0] += session.newest[0]
            base[1] += session.newest[1]
            recall.catch_up()
    progress(f"  {lived} sessions, {made} calls")
    newest = base[1] / max(base[0], 1)
    results: dict[str, float] = {
        "prefetch.lived.share": used.total() / max(fetched.total(), 1),
        "prefetch.lived.newest.share": newest,
        "prefetch.lived.pages_per_session": fetched.total() / max(lived, 1),
        "prefetch.lived.faults": faults,
    }
    for way in sorted(fetched):
        results[f"prefetch.lived.{way.replace(' ', '_')}.share"] = used[way] / max(fetched[way], 1)
        results[f"prefetch.lived.{way.replace(' ', '_')}.fetched"] = fetched[way]
    return results, {"prefetch.lived.share": newest}


def _last(steps: Sequence[Page], calls: int) -> int:
    """How many steps there are until so many calls are made."""
    for place, page in enumerate(steps):
        calls -= page.content.get("step") == "call"
        if calls < 0:
            return place
    return len(steps)


class _Lived:
    """One session, once more."""

    def __init__(self, store: Store, recall: Recall, name: str) -> None:
        self._store, self._name = store, name
        self._ahead = Ahead(recall, BY, scope="lived", session=name, limit=LIMIT)
        self._harness = Harness(store, BY, scope=f"lived/{name}", session=name, budget=BUDGET, foresight=self._ahead)
        self._named: set[str] = set()
        self._given: set[str] = set()
        self._waiting: list[tuple[frozenset[str], int]] = []
        self._acts = 0
        self.newest = [0, 0]
        """Of the base line: pages, and those of use."""
        self.counts: dict[str, tuple[int, int]] = {}

    @property
    def faults(self) -> int:
        """Those that a policy could have avoided."""
        return sum(count for kind, count in self._harness.ledger.faults.items() if kind.controllable)

    def live(self, steps: Sequence[Page]) -> int:
        """Returns how many calls were made."""
        self._harness.session_start()
        calls = 0
        open_calls: set[str] = set()
        for page in steps:
            call = str(page.content.get("call_id"))
            match page.content.get("step"):
                case "message":
                    text, speaker = str(page.content.get("text", ""))[:_LONGEST], str(page.content.get("speaker"))
                    self._harness.post_model(text, speaker=speaker)
                    self._heard(text, acted=speaker == "assistant")
                case "call" if call not in open_calls:
                    self._harness.assemble()
                    self._fetch_newest()
                    arguments = page.content.get("arguments")
                    given = arguments if isinstance(arguments, dict) else {}
                    self._harness.tool_start(str(page.content.get("tool")), given, call_id=call)
                    open_calls.add(call)
                    calls += 1
                    self._heard(str(given)[:_LONGEST], acted=True)
                case "result" if call in open_calls:
                    open_calls.discard(call)
                    value = str(page.content.get("value"))[:_LONGEST]
                    failed = page.content.get("status") == "error"
                    self._harness.tool_result(call, value, error=value[:500] or "failed" if failed else "")
                    self._heard(value, acted=False)
        self.counts = dict(self._ahead.counts())
        self._harness.close()
        return calls

    def _fetch_newest(self) -> None:
        """The base line: as many of the newest pages of other sessions as may be fetched."""
        newest = self._store.find(BY, scope="lived", newest_first=True, limit=200)
        others = [page for page in newest if page.session != self._name and page.id not in self._given][:LIMIT]
        for page in others:
            self._given.add(page.id)
            self._waiting.append((names_in(spoken(page)) - self._named, self._acts + WITHIN))
        self.newest[0] += len(others)

    def _heard(self, text: str, *, acted: bool) -> None:
        names = names_in(text)
        if acted:
            self._acts += 1
            waiting = [one for one in self._waiting if one[1] >= self._acts]
            self._waiting = [one for one in waiting if not one[0] & names]
            self.newest[1] += len(waiting) - len(self._waiting)
        self._named |= names
