"""Faults: countable failures of the memory contract. Never silent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class FaultKind(StrEnum):
    """What went wrong. The promise is zero of all but `floor-infeasible`, which no policy can prevent."""

    REFETCH = "refetch"
    DUPLICATE_TOOL = "duplicate-tool"
    PINNED_MISS = "pinned-miss"
    BOOTSTRAP_MISS = "bootstrap-miss"
    SILENT_RECALL = "silent-recall"
    FLUSH_MISS = "flush-miss"
    FLOOR_INFEASIBLE = "floor-infeasible"

    @property
    def controllable(self) -> bool:
        """Whether a policy could have prevented it."""
        return self is not FaultKind.FLOOR_INFEASIBLE


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: which page, in which session and turn, and why."""

    kind: FaultKind
    scope: str
    session: str
    turn: int
    cause: str
    pages: tuple[str, ...] = ()
    at: datetime | None = None
    seq: int = 0
