"""What was asked for and not done: handed to a human, tried with a tool that is not there, or never begun."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from instar.engine.compiler.lessons import task_of
from instar.engine.compiler.naming import words
from instar.engine.compiler.requests import request_of, topics
from instar.engine.documents import Gap
from instar.engine.plan import Support
from instar.engine.session import OutcomeStatus, ResultStatus, Session

MIN_TASKS = 3
CITED = 20
MAX_GAPS = 8

_HANDING = frozenset({"transfer", "escalate", "handoff", "handover", "forward"})
_PEOPLE = frozenset({"human", "humans", "agent", "agents", "support", "operator", "representative", "person"})
_NO_TOOL = re.compile(
    r"(?i)\b(?:tool|function)\b.{0,80}\b(?:not found|does not exist|unknown|not available)\b|unknown tool"
)

Seen = list[tuple[Session, int]]


def gaps(sessions: Iterable[Session]) -> list[Gap]:
    """The gaps that several tasks share, the most common first."""
    handed: dict[str, Seen] = defaultdict(list)
    missing: dict[tuple[str, str], Seen] = defaultdict(list)
    idle: dict[str, Seen] = defaultdict(list)
    for session in sessions:
        worked = False
        for call, result in session.exchanges():
            if result is None:
                continue
            if result.status is ResultStatus.OK:
                worked = True
                if hands_over(call.tool):
                    handed[session.project].append((session, call.index))
            elif _NO_TOOL.search((result.error or "")[:400]):
                missing[session.project, call.tool].append((session, call.index))
        if not worked and session.outcome.status is OutcomeStatus.FAILURE and request_of(session).strip():
            idle[session.project].append((session, session.steps[-1].index))
    found = [_gap("handed to a human", project, seen) for project, seen in handed.items()]
    found += [
        _gap(f"tried with the tool {tool}, which is not there", project, seen)
        for (project, tool), seen in missing.items()
    ]
    found += [_gap("failed without one successful tool call", project, seen) for project, seen in idle.items()]
    kept = [gap for gap in found if gap.support.tasks >= MIN_TASKS]
    return sorted(kept, key=lambda gap: (-gap.support.tasks, -gap.support.calls, gap.id))[:MAX_GAPS]


def hands_over(tool: str) -> bool:
    """Whether a tool's name says that it passes the user on to a person."""
    said = set(words(tool))
    return bool(said & _HANDING) and bool(said & _PEOPLE)


def _gap(what: str, project: str, seen: Sequence[tuple[Session, int]]) -> Gap:
    ordered = sorted(seen, key=lambda item: (item[0].page_id, item[1]))
    sessions = {session.page_id: session for session, _ in ordered}
    digest = hashlib.sha256(f"{what}\0{project}".encode()).hexdigest()
    return Gap(
        id=f"gap-{digest[:16]}",
        what=what,
        project=project,
        words=topics(list(sessions.values())),
        support=Support(
            sessions=len(sessions), tasks=len({task_of(session) for session in sessions.values()}), calls=len(ordered)
        ),
        evidence=[session.evidence_id(index) for session, index in ordered][:CITED],
    )
