"""Shell commands that recur in one project: what formats, lints, tests and builds it there."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from instar.engine.compiler.lessons import task_of
from instar.engine.compiler.shell import command_text, parse
from instar.engine.documents import CommandPattern
from instar.engine.plan import Support
from instar.engine.session import ResultStatus, Session

KEPT = frozenset({"format", "lint", "test", "build", "install", "vcs"})
CITED = 40
"""Evidence pages a pattern cites at most."""


@dataclass(frozen=True, slots=True)
class CommandSettings:
    """How often a command must recur to be worth telling."""

    min_sessions: int = 3
    max_patterns: int = 12


@dataclass(frozen=True, slots=True)
class _Run:
    session: Session
    index: int
    succeeded: bool


def command_patterns(
    sessions: Iterable[Session],
    settings: CommandSettings = CommandSettings(),
) -> list[CommandPattern]:
    """The recurring commands of each project, the best supported first; the order of the sessions does not matter.

    A run counts as succeeded only when its own exit status is known to be good: the end of a command before a pipe,
    a semicolon or `||` is hidden, and of a chain of `&&` that failed nobody knows which part did.
    """
    runs: dict[tuple[str, str], list[_Run]] = defaultdict(list)
    categories: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for session in sessions:
        for call, result in session.exchanges():
            text = command_text(call)
            if text is None or result is None or result.status is ResultStatus.REFUSED:
                continue
            for command in parse(text):
                if command.category in KEPT:
                    key = session.project, command.label
                    ended_well = result.status is ResultStatus.OK and not command.masked
                    runs[key].append(_Run(session, call.index, ended_well))
                    categories[key][command.category] += 1
    patterns = [
        _pattern(project, label, categories[project, label].most_common(1)[0][0], found)
        for (project, label), found in runs.items()
    ]
    kept = [pattern for pattern in patterns if pattern.support.sessions >= settings.min_sessions]
    kept.sort(
        key=lambda pattern: (-pattern.support.sessions, -pattern.support.calls, pattern.project, pattern.command)
    )
    return kept[: settings.max_patterns]


def _pattern(project: str, label: str, category: str, runs: Sequence[_Run]) -> CommandPattern:
    ordered = sorted(runs, key=lambda run: (run.session.page_id, run.index))
    evidence = list(dict.fromkeys(run.session.evidence_id(run.index) for run in ordered))
    digest = hashlib.sha256(f"{project}\0{label}".encode()).hexdigest()[:16]
    return CommandPattern(
        id=f"command-{digest}",
        project=project,
        command=label,
        category=category,
        support=Support(
            sessions=len({run.session.page_id for run in runs}),
            tasks=len({task_of(run.session) for run in runs}),
            calls=len(runs),
        ),
        succeeded=sum(run.succeeded for run in runs),
        evidence=evidence[:CITED],
    )
