"""Recorded Claude Code sessions, step by step: of the pages that were fetched ahead, which share was of use?

Before each tool call that was recorded, the page of the call before it is given to `Prefetch`, over all that happened
until then. A fetched page was of use when it names a file that one of the next calls names, and that the call before
did not name. Beside it, as a base line, the newest pages instead of the guessed ones.
"""

from __future__ import annotations

import re
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from benchmarks import recall_foresight
from benchmarks.data import recorded
from instar.core import records
from instar.core.ingest import ingest
from instar.core.runtime import runtime
from instar.core.settings import Settings
from instar.memstore import Page, PageDraft, PageType, Principal, Store, open_store
from instar.memstore.recall import Recall, open_recall
from instar.memstore.recall.documents import spoken
from instar.memstore.recall.prefetch import Prefetch

BY = Principal("benchmark", ("ahead",))
AHEAD = 10
"""So many calls after a fetch may make use of it."""
LIMIT = 5
CALLS = 1_200
_FILE = re.compile(
    r"[\w.-]*/[\w./-]*\w\.\w{1,5}\b|\b\w[\w-]*\.(?:py|ts|tsx|js|rs|go|md|json|toml|yml|yaml|sh|css|html)\b"
)
_READ = 20_000


def measure() -> tuple[dict[str, float], dict[str, float]]:
    """For each way of guessing the share that was of use, and how many pages it fetched before it was switched off.

    Raises:
        DataMissing: the data is not there.
    """
    sessions = load()
    fetched, used, newest = replay(sessions)
    results = {"prefetch.share": used.total() / max(fetched.total(), 1), "prefetch.newest.share": newest}
    for way in sorted(fetched):
        results[f"prefetch.{way.replace(' ', '_')}.share"] = used[way] / max(fetched[way], 1)
        results[f"prefetch.{way.replace(' ', '_')}.fetched"] = fetched[way]
    lived, beside = recall_foresight.measure(sorted(sessions, key=_began), calls=CALLS)
    return results | lived, {"prefetch.share": newest} | beside


def load() -> list[list[Page]]:
    """The steps of each session, in order."""
    with tempfile.TemporaryDirectory(prefix="instar-prefetch-") as folder:
        place = Path(folder)
        with tarfile.open(recorded("claude-code/sessions.tar.gz")) as archive:
            archive.extractall(place / "in", filter="data")
        with runtime(Settings(home=place / "home")) as rt:
            ingest(rt, [place / "in"])
            steps: dict[str, list[Page]] = {}
            for page in rt.store.find(rt.principal, scope="local", kind=records.STEP):
                steps.setdefault(page.session or "", []).append(page)
    return [sorted(pages, key=lambda page: page.seq) for pages in steps.values()]


def replay(sessions: Sequence[Sequence[Page]]) -> tuple[Counter[str], Counter[str], float]:
    """Pages fetched and used by each way of guessing, and the share of the newest pages that would have been used."""
    fetched: Counter[str] = Counter()
    used: Counter[str] = Counter()
    base = [0, 0]
    calls = 0
    with open_store("memory:") as store, open_recall(store, address="memory:", folder=None) as recall:
        ahead = Prefetch(recall, BY, "ahead")
        for steps in sessions:
            places = [place for place, page in enumerate(steps) if _is_call(page)]
            written = 0
            if not steps or calls >= CALLS:
                continue
            with store.writeback(BY, scope="ahead") as batch:
                batch.append(PageDraft("session", PageType.EVIDENCE, {"steps": len(steps)}, id=steps[0].session))
            for number, place in enumerate(places[:-1]):
                _write(store, recall, steps[written : place + 1])
                written = place + 1
                page = store.get(BY, steps[place].id)
                if page is None or calls >= CALLS:
                    break
                calls += 1
                coming = places[number + 1 : number + 1 + AHEAD]
                wanted = {name for at in coming for name in files(steps[at])} - files(page)
                before = ahead.counts()
                got = ahead.around(page, limit=LIMIT)
                useful = [one.id for one in got if files(one) & wanted]
                ahead.used(useful)
                for way, (count, hits) in ahead.counts().items():
                    earlier = before.get(way, (0, 0))
                    fetched[way] += count - earlier[0]
                    used[way] += hits - earlier[1]
                for one in store.find(BY, scope="ahead", newest_first=True, limit=LIMIT):
                    base[0] += 1
                    base[1] += bool(files(one) & wanted)
            _write(store, recall, steps[written:])
    return fetched, used, base[1] / max(base[0], 1)


def _began(steps: Sequence[Page]) -> datetime:
    return min(page.created_at for page in steps)


def files(page: Page) -> set[str]:
    """The names of the files that a page speaks of, without their folders."""
    return {found.rpartition("/")[2] for found in _FILE.findall(spoken(page)[:_READ])}


def _is_call(page: Page) -> bool:
    return page.content.get("step") == "call"


def _write(store: Store, recall: Recall, pages: Sequence[Page]) -> None:
    if not pages:
        return
    with store.writeback(BY, scope="ahead") as batch:
        for draft in _drafts(pages):
            batch.append(draft)
    recall.catch_up()


def _drafts(pages: Sequence[Page]) -> Iterator[PageDraft]:
    for page in pages:
        yield PageDraft(
            page.kind,
            PageType.EVIDENCE,
            page.content,
            text=page.text,
            id=page.id,
            session=page.session,
            parent=page.session,
            tags=page.tags,
            state=page.state,
            created_at=page.created_at,
        )
