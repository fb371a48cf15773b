"""Pages of other sessions in a context: fetched before they are asked for, and never at the cost of a floor.

They have no floor. What they get is left over from the floors of the session's own pages, is at most a share of the
budget, and competes by its worth per token like every other step. So they cause no fault, whatever they are.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from instar.memstore.assembly import Selection
from instar.memstore.ladder import Item
from instar.memstore.pages import Level, Page, Pin
from instar.memstore.tokens import count_tokens
from instar.memstore.trace import TracedWorkingSet

SHARE = 4
"""At most the fourth part of a budget goes to pages of other sessions."""
_WORTH = 0.8
"""A step of theirs is worth less than one of a result of this session."""
_SEPARATOR = 1


@dataclass(frozen=True, slots=True)
class Recollection:
    """A page of another session, in a frame that says what it is."""

    page: Page
    texts: Mapping[Level, str]
    """What may be shown of it, by level."""


@dataclass(frozen=True, slots=True)
class _Any:
    """What is in any of these."""

    parts: tuple[Container[str], ...]

    def __contains__(self, page_id: object) -> bool:
        return any(page_id in part for part in self.parts)


class Foresight(Protocol):
    """Knows what a session may need next. Made for one session."""

    def heard(self, page: Page) -> None:
        """Take note of a page of the session, in the order of events; cheap, and nothing is fetched yet."""
        ...

    def fetch(self, held: Container[str]) -> Sequence[Recollection]:
        """What the next turn may need besides the pages that are held; asked once before each turn.

        Raises nothing because of a store or an index: what cannot be fetched is not there.
        """
        ...

    def used(self, page_ids: Collection[str]) -> None:
        """Say which pages were asked for after all."""
        ...

    def close(self) -> None:
        """The session ends: keep what was counted."""
        ...


@dataclass(frozen=True, slots=True)
class _Held:
    turn: int
    """In which it came."""
    one: Recollection
    item: Item

    @property
    def most(self) -> int:
        """Tokens that it may take."""
        return self.item.costs[self.item.path[-1]]


class Recollections:
    """Those that compete for the context of one session; the oldest leave when there is no room for new ones."""

    def __init__(self, foresight: Foresight, working: TracedWorkingSet) -> None:
        self._foresight, self._working = foresight, working
        self._held: dict[str, _Held] = {}
        self._known: set[str] = set()
        """All that were ever held: who asks for one that left again gets nothing, and that is no fault."""
        self._large: set[str] = set()
        """Of which not even the shortest form fits; they are not fetched again."""
        self._room, self._turn = -1, 0

    def __contains__(self, page_id: object) -> bool:
        return page_id in self._known

    def heard(self, page: Page) -> None:
        """A page of the session came or changed; one that was recalled is the session's own from now on."""
        if page.id in self._held:
            self._drop(page.id)
        self._known.discard(page.id)
        self._foresight.heard(page)

    def refresh(self, budget: int, own: Container[str], demanded: Collection[str]) -> None:
        """Fetch for the next turn, and let as many compete as may be in a context of this budget."""
        if wanted := [page_id for page_id in demanded if page_id in self._known]:
            self._foresight.used(wanted)
        room = budget // SHARE
        self._turn += 1
        found = [(self._turn, one) for one in self._foresight.fetch(_Any((own, self._held, self._large)))]
        if room != self._room:  # what each may cost depends on it
            found = [*((held.turn, held.one) for held in self._held.values()), *found]
            for page_id in list(self._held):
                self._drop(page_id)
            self._room = room
        for turn, one in found:
            if one.page.id in self._held:
                continue
            item = _item_of(one, room)
            if item is None:
                self._large.add(one.page.id)
                continue
            self._held[one.page.id] = _Held(turn, one, item)
            self._known.add(one.page.id)
            self._working.add(item)
        self._make_room(room, wanted)

    def _make_room(self, room: int, wanted: Collection[str]) -> None:
        """Of what came in earlier turns the oldest leaves first, of what came together the last."""
        last_first = list(reversed(self._held))
        leaving = sorted(last_first, key=lambda page_id: (page_id in wanted, self._held[page_id].turn))
        taken = sum(held.most for held in self._held.values())
        for page_id in leaving:
            if taken <= room:
                break
            taken -= self._held[page_id].most
            self._drop(page_id)

    def shown(self, levels: Mapping[str, Level]) -> tuple[dict[str, Level], list[str]]:
        """Those of a selection that are shown, and their texts."""
        chosen = {page_id: level for page_id, level in levels.items() if level and page_id in self._held}
        return chosen, [self._held[page_id].one.texts[level] for page_id, level in chosen.items()]

    def without(self, selection: Selection) -> Selection:
        """What was decided about the session's own pages: the others count for no fault."""
        levels = {page_id: level for page_id, level in selection.levels.items() if page_id not in self._held}
        missing = tuple(page_id for page_id in selection.missing if page_id not in self._held)
        return replace(selection, levels=levels, missing=missing)

    def close(self) -> None:
        """The session ends."""
        self._foresight.close()

    def _drop(self, page_id: str) -> None:
        del self._held[page_id]
        self._working.discard(page_id)


def _item_of(one: Recollection, room: int) -> Item | None:
    """An item without a floor; None where nothing of it fits. One page may take half of the room."""
    costs = {level: count_tokens(text) + _SEPARATOR for level, text in one.texts.items() if level}
    fitting = sorted(level for level, cost in costs.items() if cost <= room // 2)
    if not fitting:
        return None
    pointer, structured, compressed, full = (costs.get(level, room + 1) for level in list(Level)[1:])
    path = (Level.NONE, *fitting)
    return Item(one.page.id, Pin.NONE, False, path, (0, pointer, structured, compressed, full), _WORTH, 0.0)
