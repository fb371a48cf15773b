"""Steps in order of worth, and the climb along them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf

from instar.memstore.ladder import Step
from instar.memstore.pages import Level

_BLOCK = 24
_BEHIND_ALL: Step = (inf, "", Level.NONE, 0, Level.NONE, 0.0)


class Ranking:
    """Steps in sorted blocks that know their cheapest step, so that what cannot be paid is passed over."""

    def __init__(self) -> None:
        self._blocks: list[list[Step]] = []
        self._cheapest: list[int] = []

    def add(self, step: Step) -> None:
        """Put a step into its place."""
        if not self._blocks:
            self._blocks, self._cheapest = [[step]], [step[3]]
            return
        at = self._place(step)
        block = self._blocks[at]
        insort(block, step)
        self._cheapest[at] = min(self._cheapest[at], step[3])
        if len(block) > _BLOCK:
            half = len(block) // 2
            self._blocks[at : at + 1] = [block[:half], block[half:]]
            self._cheapest[at : at + 1] = [_cheapest(block[:half]), _cheapest(block[half:])]

    def discard(self, step: Step) -> None:
        """Take out a step that was put in."""
        at = self._place(step)
        block = self._blocks[at]
        del block[bisect_left(block, step)]
        if not block:
            del self._blocks[at], self._cheapest[at]
        elif step[3] == self._cheapest[at]:
            self._cheapest[at] = _cheapest(block)

    def blocks(self) -> Iterator[tuple[int, list[Step]]]:
        """Cheapest cost and steps of each block, best first."""
        return zip(self._cheapest, self._blocks, strict=True)

    def near(self, rank: float, count: int) -> list[Step]:
        """The steps of the block that holds a rank, and on either side of it this many more or what there is."""
        at = max(bisect_right(self._blocks, rank, key=lambda block: block[0][0]) - 1, 0)
        found = [step for block in self._blocks[at : at + 1] for step in block]
        for blocks in (reversed(self._blocks[:at]), self._blocks[at + 1 :]):
            wanted = len(found) + count
            for block in blocks:
                if len(found) >= wanted:
                    break
                found += block
        return found

    def _place(self, step: Step) -> int:
        # Compared as lists, blocks stand in the order of their first steps; the second element breaks a tie.
        return max(bisect_right(self._blocks, [step, _BEHIND_ALL]) - 1, 0)


def _cheapest(block: list[Step]) -> int:
    return min([step[3] for step in block])


@dataclass(slots=True)
class Climb:
    """How far the tokens reach. `least` is what any step costs."""

    chosen: dict[str, Level]
    left: int
    least: int
    worth: float = 0.0
    stop: float = 0.0
    """Rank of the first step that could not be paid, or of the last that could."""
    most: float = 0.0
    """What the tokens could buy if that step could be taken in part: no selection is worth more (Dantzig, 1957)."""

    def take(self, steps: Iterable[Step]) -> None:
        """Climb every step that can be paid and whose page stands right below it."""
        chosen, left, least, worth = self.chosen, self.left, self.least, self.worth
        rest = iter(steps)
        if not self.stop:
            for rank, page_id, level, cost, below, _ in rest:
                if chosen.get(page_id) is not below:
                    continue
                if cost <= left:
                    chosen[page_id] = level
                    left -= cost
                    worth -= rank * cost
                if cost > left or left < least:
                    self.stop, self.most = rank, worth - rank * left
                    break
        for rank, page_id, level, cost, below, _ in rest:
            if left < least:
                break
            if cost <= left and chosen.get(page_id) is below:
                chosen[page_id] = level
                left -= cost
                worth -= rank * cost
        self.left, self.worth = left, worth

    @property
    def gap(self) -> float:
        """The share by which this can at most fall short."""
        return (self.most - self.worth) / self.most if self.most else 0.0


Option = tuple[int, float, Level]
"""Cost, worth, level."""


def best_levels(pages: list[list[Option]], tokens: int) -> tuple[list[Level], int]:
    """The levels of highest worth that these tokens buy, and what they cost; the first options always fit.

    Keeps, page by page, only sums that no cheaper sum outdoes (Nemhauser and Ullmann, 1969).
    """
    states: list[tuple[int, float, tuple[Level, ...]]] = [(0, 0.0, ())]
    floor = sum(options[0][0] for options in pages)
    for options in pages:
        floor -= options[0][0]
        grown = sorted(
            [
                (cost + more, -worth - gain, (*levels, level))
                for cost, worth, levels in states
                for more, gain, level in options
                if cost + more + floor <= tokens
            ]
        )
        states, top = [], -1.0
        for cost, loss, levels in grown:
            if -loss > top:
                top = -loss
                states.append((cost, top, levels))
    spent, _, levels = states[-1]
    return list(levels), spent
