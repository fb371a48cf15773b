"""What a session counts: what was in the last context, what was demanded, and every fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from instar.memstore.assembly import Selection
from instar.memstore.faults import Fault, FaultKind
from instar.memstore.pages import Level, Page, PageType, Pin


class Ledger:
    """Knows which pages are resident: present in the last assembled context, at pointer or better."""

    def __init__(self, scope: str, session: str) -> None:
        self._scope, self._session = scope, session
        self.faults: Counter[FaultKind] = Counter()
        self.alerts = 0
        """Calls that repeated one whose result was at hand."""
        self.hits = 0
        """Demands that the context before them could serve."""
        self.turn = 0
        self.noted: list[Fault] = []
        """Faults that are not stored yet."""
        self._resident: Mapping[str, Level] | None = None
        """None before the first context, and after a compaction or reset."""
        self._seen: set[str] = set()
        self.new: set[str] = set()
        """Pages that came since the last context: no context had to hold them yet."""
        self._first = True

    def forget(self) -> None:
        """The context is gone: the next one is the first after a compaction or reset."""
        self._resident, self._first = None, True
        self.new.clear()

    def is_resident(self, page_id: str) -> bool:
        """Whether the last context holds the page."""
        return self._resident is not None and page_id in self._resident

    def demand(self, page_ids: Sequence[str]) -> None:
        """Count a hit for what the last context held, and a fault for what was there once and is not any more."""
        if self._resident is None:
            return
        for page_id in page_ids:
            if page_id in self._resident:
                self.hits += 1
            elif page_id in self._seen:
                self.note(FaultKind.REFETCH, "demanded, and the last context did not hold it", [page_id])

    def repeat(self, tool: str, earlier: str) -> bool:
        """A call repeats an earlier one: an alert when its result is at hand (True), otherwise a fault."""
        if self.is_resident(earlier):
            self.alerts += 1
            return True
        self.note(FaultKind.DUPLICATE_TOOL, f"{tool} was called with these arguments before", [earlier])
        return False

    def selected(self, selection: Selection, pages: Mapping[str, Page], budget: int) -> None:
        """A context was made: note what it had to do without."""
        self.turn += 1
        if lost := [*selection.missing, *selection.infeasible]:
            self.note(FaultKind.FLOOR_INFEASIBLE, f"the floors do not fit into {budget} tokens", lost)
        gone = [page_id for page_id in selection.missing if page_id not in selection.levels]
        if pinned := [page_id for page_id in gone if pages[page_id].pin is Pin.HARD]:
            self.note(FaultKind.PINNED_MISS, "hard-pinned pages are not in the context", pinned)
        boot = [page_id for page_id in pinned if pages[page_id].type is PageType.BOOTSTRAP]
        if boot and self._first:
            self.note(FaultKind.BOOTSTRAP_MISS, "the first context lacks its bootstrap pages", boot)
        self._first = False
        self._resident = selection.levels
        self.new.clear()
        self._seen |= selection.levels.keys()

    def note(self, kind: FaultKind, cause: str, pages: Sequence[str]) -> None:
        """Count a fault, to be stored with the next commit."""
        self.faults[kind] += 1
        self.noted.append(Fault(kind, self._scope, self._session, self.turn, cause, tuple(pages)))

    def take(self) -> list[Fault]:
        """The faults since the last time, to be stored."""
        noted, self.noted = self.noted, []
        return noted

    @property
    def thrash(self) -> float:
        """Faults and alerts for each hit: (faults + alerts) / (hits + 1)."""
        return (sum(self.faults.values()) + self.alerts) / (self.hits + 1)
