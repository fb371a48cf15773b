"""What changes: failures over time, and tools whose sessions end otherwise than those without them."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from instar.engine.compiler.lessons import Cluster, task_of
from instar.engine.compiler.need import wilson
from instar.engine.documents import Contrast
from instar.engine.session import OutcomeStatus, Session

Trend = Literal["", "rising", "falling", "steady"]

MIN_SESSIONS = 8
"""Dated sessions in each half of a window below which nothing is said about time."""
MIN_TASKS = 5
"""Distinct tasks on each side of a contrast."""
CITED = 10
MAX_CONTRASTS = 6


@dataclass(frozen=True, slots=True)
class Halves:
    """The dated sessions of a window, by page id, split at the middle one."""

    earlier: frozenset[str]
    later: frozenset[str]

    @classmethod
    def of(cls, sessions: Sequence[Session]) -> Halves:
        """Split by the time at which sessions began; those without one are in neither half."""
        dated = [(session.started_at, session.page_id) for session in sessions if session.started_at is not None]
        pages = [page for _, page in sorted((at.timestamp(), page) for at, page in dated)]
        return cls(frozenset(pages[: len(pages) // 2]), frozenset(pages[len(pages) // 2 :]))

    def trend(self, cluster: Cluster) -> Trend:
        """Whether the share of sessions with this failure changed: the 95 % intervals of the halves do not meet."""
        if min(len(self.earlier), len(self.later)) < MIN_SESSIONS:
            return ""
        failing = {failure.session.page_id for failure in cluster.failures}
        before = wilson(len(failing & self.earlier), len(self.earlier))
        after = wilson(len(failing & self.later), len(self.later))
        if before[1] < after[0]:
            return "rising"
        return "falling" if after[1] < before[0] else "steady"


def contrasts(sessions: Sequence[Session]) -> list[Contrast]:
    """Tools with which sessions succeed clearly more or less often than without; the clearest first.

    Clearly: the 95 % intervals of both shares do not meet, on at least five tasks each.
    """
    projects: dict[str, list[Session]] = defaultdict(list)
    for session in sessions:
        if session.outcome.status is not OutcomeStatus.UNKNOWN:
            projects[session.project].append(session)
    found: list[tuple[float, Contrast]] = []
    for project, labelled in sorted(projects.items()):
        tools: dict[str, set[str]] = defaultdict(set)
        for session in labelled:
            for call, _ in session.exchanges():
                tools[call.tool].add(session.page_id)
        for tool, pages in sorted(tools.items()):
            using = [session for session in labelled if session.page_id in pages]
            others = [session for session in labelled if session.page_id not in pages]
            if min(len({task_of(session) for session in side}) for side in (using, others)) >= MIN_TASKS:
                found += _contrast(tool, project, using, others)
    found.sort(key=lambda item: (-item[0], item[1].id))
    return [contrast for _, contrast in found[:MAX_CONTRASTS]]


def _contrast(
    tool: str, project: str, using: Sequence[Session], others: Sequence[Session]
) -> list[tuple[float, Contrast]]:
    won, lost = (sum(session.outcome.status is OutcomeStatus.SUCCESS for session in side) for side in (using, others))
    with_tool, without = wilson(won, len(using)), wilson(lost, len(others))
    distance = max(with_tool[0] - without[1], without[0] - with_tool[1])
    if distance <= 0:
        return []
    ordered = sorted(using, key=lambda session: session.page_id)
    first = [next(call.index for call, _ in session.exchanges() if call.tool == tool) for session in ordered[:CITED]]
    digest = hashlib.sha256(f"{tool}\0{project}".encode()).hexdigest()
    contrast = Contrast(
        id=f"contrast-{digest[:16]}",
        tool=tool,
        project=project,
        succeeded_with=won,
        sessions_with=len(using),
        succeeded_without=lost,
        sessions_without=len(others),
        evidence=[session.evidence_id(index) for session, index in zip(ordered, first, strict=False)],
    )
    return [(distance, contrast)]
