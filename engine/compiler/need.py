"""How often what a pattern fetches was really needed, with the uncertainty of that share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from instar.engine.compiler.uses import entries
from instar.engine.documents import Pattern
from instar.engine.session import OutcomeStatus, ResultStatus, Session

Z = 1.959964
"""The 97.5 % quantile of the normal distribution: two-sided intervals of 95 %."""


@dataclass(frozen=True, slots=True)
class Need:
    """Of the sessions that made the first call, how many went on to what the pattern fetches."""

    opportunities: int
    needed: int
    cited: int = 0
    """Sessions cited as evidence for it."""
    failed: int = 0
    """Those of them whose task was recorded as failed."""

    @property
    def share(self) -> float:
        """The share that needed more than the first call."""
        return self.needed / self.opportunities if self.opportunities else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % Wilson interval of the share."""
        return wilson(self.needed, self.opportunities)


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """The Wilson score interval of a proportion, 95 % two-sided (Wilson 1927); (0, 1) without trials."""
    if trials == 0:
        return 0.0, 1.0
    share = successes / trials
    centre = share + Z * Z / (2 * trials)
    spread = Z * math.sqrt(share * (1 - share) / trials + Z * Z / (4 * trials * trials))
    scale = 1 + Z * Z / trials
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def need_of(pattern: Pattern, sessions: Sequence[Session]) -> Need:
    """Count over the sessions of the pattern's project; a session counts once, however often it makes the call."""
    first = {node.tool for node in entries(pattern.plan)}
    shown = {page.rsplit(".", 1)[0] for node in pattern.plan.nodes[1:] for page in node.evidence}
    opportunities = cited = failed = 0
    for session in sessions:
        if session.project == pattern.project and any(
            call.tool in first and result is not None and result.status is ResultStatus.OK
            for call, result in session.exchanges()
        ):
            opportunities += 1
            cited += session.page_id in shown
            failed += session.page_id in shown and session.outcome.status is OutcomeStatus.FAILURE
    return Need(opportunities, min(pattern.support.sessions, opportunities), cited, failed)
