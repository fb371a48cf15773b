"""Keeps the index up to date, builds it anew, and lets vectors of a new embedder take over when they are whole."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from instar.memstore.recall.answers import IndexState
from instar.memstore.recall.errors import EmbedderFailed, IndexBusy, IndexFailed, IndexHeld
from instar.memstore.recall.feed import BATCH, DETAILS_BEFORE, Feed, Side
from instar.memstore.recall.importance import HALF_LIFE
from instar.memstore.recall.index import PATIENT, WordIndex
from instar.memstore.store import Store

EMBEDDER = "embedder"
"""Under this name the index remembers whose vectors are complete."""
_FADED = "shown-faded"
_FADES_AFTER = timedelta(days=7)
_LASTING = frozenset({DETAILS_BEFORE, _FADED})
_COUNTED = 10_000

Progress = Callable[[int], None]
"""Called with the number of changes that were brought in so far."""


class Upkeep:
    """The index of one store: its words, the vectors that serve, and those that are being built."""

    def __init__(
        self, store: Store, words: WordIndex, serving: Side | None, building: Side | None, notices: Sequence[str]
    ) -> None:
        self.words, self.serving = words, serving
        self._building, self._notices = building, tuple(notices)
        self._feed = Feed(store, words)
        self._named = ""
        """Whose vectors the index was last seen to remember as complete."""
        if not self._feed.belongs():
            # The index of another store, or of an earlier state of this one, is no index.
            self.words.clear()
            try:
                for side in self.sides():
                    side.vectors.clear()
            except (IndexHeld, IndexFailed) as error:
                self.serving = self._building = None
                self._notices = (*self._notices, f"without vectors: {error}")

    def sides(self) -> list[Side]:
        """The vectors that there are."""
        return [side for side in (self.serving, self._building) if side is not None]

    def catch_up(self, *, seconds: float | None = None, progress: Progress | None = None) -> int:
        """Bring the index up to date; returns how many batches that took.

        Raises:
            StoreUnavailable: the store cannot be read.
            IndexHeld: the words are up to date, and another process owns the vectors.
            IndexBusy: another process is bringing it up to date, and takes longer than a minute for a part.
            IndexFailed: a part of the index cannot be written.
            EmbedderFailed: there are no vectors to be had.
        """
        done, complete = self._run(seconds, progress)
        if complete and seconds is None:
            with self.words.turn(PATIENT):
                for side in self.sides():
                    side.vectors.repair()
        return done

    def _run(
        self, seconds: float | None, progress: Progress | None = None, *, within: float = PATIENT
    ) -> tuple[int, bool]:
        """How many batches were brought in, and whether that was all."""
        end = float("inf") if seconds is None else time.monotonic() + seconds
        sides, done = self.sides(), 0
        try:
            while self._feed.step(sides, within=within):
                done += 1
                if progress is not None:
                    progress(done * BATCH)
                if time.monotonic() > end:
                    return done, False
            self._switch(changed=done > 0)
            return done, True
        except IndexBusy:
            raise
        except (IndexFailed, IndexHeld, EmbedderFailed):
            # Whatever is wrong with the vectors, the words need not wait for it.
            while self._feed.step([], within=within):
                done += 1
                if time.monotonic() > end:
                    break
            raise

    def reindex(self, progress: Progress | None = None) -> IndexState:
        """Forget the whole index and build it anew from the store. Searches meanwhile say `degraded`.

        Raises:
            StoreUnavailable, IndexHeld, IndexFailed, EmbedderFailed: as `catch_up`; try again to continue.
        """
        self.serving, self._building = (side and side.measured() for side in (self.serving, self._building))
        with self.words.turn(PATIENT):
            for side in self.sides():
                side.vectors.clear()
            kept = {name: value for name, value in self.words.settings().items() if name in _LASTING}
            self.words.clear()
            self._named = ""
            for name, value in kept.items():
                self.words.remember(name, value)
        self.catch_up(progress=progress)
        return self.state()

    def freshen(self, patience: float) -> list[str]:
        """Catch up for a moment; what is still missing then, in words.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        found = list(self._notices)
        lacking = "searches bring them in bit by bit, `instar reindex` at once"
        try:
            if self._run(patience, within=max(patience, 0.0))[1]:
                return found
        except IndexBusy as error:
            lacking = f"{error.writer} is bringing them in"
        except (IndexHeld, IndexFailed, EmbedderFailed) as error:
            found.append(str(error))
        try:
            if lag := self._lag(self.words.through()):
                found.append(f"{_about(lag)} not in the index yet; {lacking}")
            elif self.serving and (lag := self._lag(self.serving.vectors.through())):
                found.append(f"{_about(lag)} without vectors yet; {lacking}")
        except IndexFailed as error:
            found.append(str(error))
        return list(dict.fromkeys(found))

    def state(self) -> IndexState:
        """How the index stands against the store.

        Raises:
            StoreUnavailable: the store cannot be read.
            IndexFailed: the index of words cannot be read.
        """
        reasons = list(self._notices)
        lag = self._lag(self.words.through())
        pages = sum(self.words.totals(root)[0] for root in self.words.roots())
        vectors = vector_lag = 0
        if self.serving is not None:
            vector_lag = self._lag(self.serving.vectors.through())
            try:
                vectors = self.serving.vectors.count()
            except (IndexFailed, IndexHeld) as error:
                reasons.append(str(error))
        if lag or vector_lag:
            reasons.append(f"{_about(max(lag, vector_lag))} not in the index yet")
        name = self.serving.embedder.name if self.serving else ""
        return IndexState(pages, lag, vectors, vector_lag, name, tuple(reasons))

    def retire(self, before: int) -> None:
        """Let the details from before this time, in microseconds, leave the index; the pages stay in the store."""
        if before > int(self.words.settings().get(DETAILS_BEFORE, "0")):
            with self.words.turn(PATIENT):
                self.words.remember(DETAILS_BEFORE, str(before))
                self._feed.drop_details(self.sides(), before)

    def fade(self, now: datetime) -> None:
        """Count for half what was shown a half-life ago; done at most once a week, since counts are whole."""
        told = self.words.settings().get(_FADED)
        before = datetime.fromisoformat(told) if told else now
        if told and now - before < _FADES_AFTER:
            return
        if now > before:
            self.words.fade(0.5 ** ((now - before) / HALF_LIFE))
        self.words.remember(_FADED, now.isoformat())

    def close(self) -> None:
        """Give back files, connections and locks."""
        for side in self.sides():
            side.vectors.close()
        self.words.close()

    def _lag(self, cursor: int) -> int:
        return self._feed.lag(cursor, most=_COUNTED)

    def _switch(self, *, changed: bool) -> None:
        if self._building is not None:
            if self.serving is not None:
                self.serving.vectors.clear()
                self.serving.vectors.close()
            self.serving, self._building = self._building, None
            self._notices = ()
        name = self.serving.embedder.name if self.serving is not None else ""
        if changed or name != self._named:
            if name and self.words.settings().get(EMBEDDER) != name:
                self.words.remember(EMBEDDER, name)
            self._named = name


def _about(lag: int) -> str:
    return f"{lag} or more changes are" if lag == _COUNTED else f"{lag} changes are" if lag > 1 else "1 change is"
