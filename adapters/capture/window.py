"""Which part of a conversation the model still sees as it was."""

from __future__ import annotations

from collections.abc import Sequence


class Window:
    """The newest items that fit into a number of tokens.

    When they do not fit any more it moves on to half of that, so that it need not move at every turn. It never begins
    with an item that belongs to the one before it, as a result does to its call.
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self.start, self.moves = 0, 0

    def move(self, costs: Sequence[int], bound: Sequence[bool]) -> bool:
        """Move on where it is time to; `bound` marks the items that belong to the one before. True when it moved."""
        if self.start > len(costs):
            self.start = 0  # another conversation
        if sum(costs[self.start :]) <= self._keep or not costs:
            return False
        start, left = len(costs), self._keep // 2
        while start > 0 and costs[start - 1] <= left:
            start -= 1
            left -= costs[start]
        while start < len(costs) and bound[start]:
            start += 1
        newest = max((at for at in range(len(costs)) if not bound[at]), default=0)
        start = min(start, newest)
        if start <= self.start:
            return False
        self.start = start
        self.moves += 1
        return True
