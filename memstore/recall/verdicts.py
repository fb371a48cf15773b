"""What people said of pages and sessions, as far as it bears on what a page counts for. It fades, like everything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from threading import Lock

from instar.memstore.pages import Page

HALF_LIFE = timedelta(days=90)
"""After this time a person's word counts for half."""
_OF_ITS_SESSION = 0.5
"""What a word on a session counts for each page of it, against one on the page itself."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One word of a person on something."""

    source: str
    """How it is explained: `feedback` or `review`."""
    good: bool
    at: datetime
    share: float = 1.0
    """How much of it is meant for this page."""

    def worth(self, now: datetime) -> float:
        """Between -1 and 1."""
        faded: float = 0.5 ** (max(now - self.at, timedelta()) / HALF_LIFE)
        return (self.share if self.good else -self.share) * faded


Verdicts = Mapping[str, Sequence[Verdict]]
"""By the id of the page, or of the session, that they are about."""


def verdicts_on(page: Page, verdicts: Verdicts) -> list[Verdict]:
    """Those on a page, and on the session that it is of."""
    found = list(verdicts.get(page.id, ()))
    if page.session is not None and page.session != page.id:
        of_session = verdicts.get(page.session, ())
        found += [replace(verdict, share=verdict.share * _OF_ITS_SESSION) for verdict in of_session]
    return found


def worth(verdicts: Iterable[Verdict], source: str, now: datetime) -> float:
    """All of one source together, between -1 and 1."""
    total = sum(verdict.worth(now) for verdict in verdicts if verdict.source == source)
    return max(-1.0, min(1.0, total))


class Remembered:
    """Verdicts as they were read last, read again after some seconds. Threads may share it."""

    def __init__(self, read: Callable[[], Verdicts], *, clock: Callable[[], float], seconds: float = 30.0) -> None:
        self._read, self._clock, self._seconds = read, clock, seconds
        self._held: tuple[float, Verdicts] | None = None
        self._one = Lock()

    def __call__(self) -> Verdicts:
        """What is known now, or was a moment ago."""
        with self._one:
            now = self._clock()
            if self._held is None or now - self._held[0] > self._seconds:
                self._held = (now, self._read())
            return self._held[1]
