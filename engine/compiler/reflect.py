"""Reflection over a window: what recurs, what fails, what is run, and what could become a skill."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from instar.engine.compiler.commands import CommandSettings, command_patterns
from instar.engine.compiler.gaps import gaps
from instar.engine.compiler.identity import identified
from instar.engine.compiler.lessons import Cluster, LessonSettings, clusters, task_of
from instar.engine.compiler.mine import mine
from instar.engine.compiler.phrases import Language
from instar.engine.compiler.propose import ProposalSettings, propose
from instar.engine.compiler.settings import MiningSettings
from instar.engine.compiler.shell import command_text
from instar.engine.compiler.trends import Halves, Trend, contrasts
from instar.engine.compiler.upkeep import upkeep
from instar.engine.documents import (
    Abstention,
    Catalogue,
    CommandPattern,
    Contrast,
    FailureCluster,
    Gap,
    Proposal,
    Reflection,
    Window,
)
from instar.engine.session import Session

MIN_CLUSTER = 2
"""Failures that make a cluster worth telling; one alone is told in the memories of its session."""
MAX_CLUSTERS = 20
MAX_ABSTENTIONS = 12
CITED = 20


@dataclass(frozen=True, slots=True)
class ReflectSettings:
    """The settings of every part of a reflection."""

    mining: MiningSettings = field(default_factory=MiningSettings)
    lessons: LessonSettings = field(default_factory=LessonSettings)
    commands: CommandSettings = field(default_factory=CommandSettings)
    proposals: ProposalSettings = field(default_factory=ProposalSettings)
    language: Language = "en"
    """The language of requirements; reflections and what agents read are in English."""


def reflect(window: Window, catalogue: Catalogue, settings: ReflectSettings) -> Reflection:
    """The reflection of a window; the order of its sessions does not matter, and equal windows give equal pages."""
    sessions = sorted(window.sessions, key=lambda session: session.page_id)
    mined = mine(sessions, settings.mining)
    found = clusters(sessions, settings.lessons)
    commands = command_patterns(sessions, settings.commands)
    proposals, turned_down = propose(mined.patterns, found, window, catalogue, settings.proposals)
    uses, retired = upkeep(sessions, catalogue)
    halves = Halves.of(sessions)
    told = [cluster for cluster in found if len(cluster.failures) >= MIN_CLUSTER or cluster.advice][:MAX_CLUSTERS]
    failures = [_document(cluster, halves.trend(cluster)) for cluster in told]
    abstentions = [*turned_down, *_withdrawn(found), *_coding(sessions, commands), *mined.abstentions]
    missing, differences = gaps(sessions), contrasts(sessions)
    asked = [*proposals, *retired[: settings.proposals.limit]]
    content = Reflection(
        id="",
        scope=window.scope,
        sessions=len(sessions),
        tasks=len({task_of(session) for session in sessions}),
        calls=sum(1 for session in sessions for _ in session.exchanges()),
        failures=sum(len(cluster.failures) for cluster in found),
        left_out=dict(sorted(window.left_out.items())),
        patterns=list(mined.patterns),
        failure_clusters=failures,
        commands=commands,
        proposals=asked,
        abstentions=abstentions[:MAX_ABSTENTIONS],
        evidence=_evidence(asked, failures, commands, missing, differences),
        gaps=missing,
        contrasts=differences,
        skill_uses=uses,
    )
    return identified(content, "reflection")


def _document(cluster: Cluster, trend: Trend) -> FailureCluster:
    key = f"{cluster.scope}\0{cluster.operation}\0{cluster.signature}"
    evidence = [
        failure.session.evidence_id(index)
        for failure in cluster.failures
        for index in (failure.call.index, failure.result.index)
    ]
    return FailureCluster(
        id=f"failure-{hashlib.sha256(key.encode()).hexdigest()[:16]}",
        tool=str(cluster.operation),
        signature=cluster.signature or "(no message)",
        example=cluster.failures[0].message[:300],
        support=cluster.support,
        recovered=cluster.recovered,
        lesson=cluster.lesson(),
        trend=trend,
        evidence=evidence[:CITED],
    )


def _withdrawn(found: Sequence[Cluster]) -> list[Abstention]:
    return [
        Abstention(
            what=f"Lesson for {cluster.operation}: {advice.change.advice()}",
            reason=f"withdrawn: it got past “{cluster.signature}” in only {advice.worked} of {advice.tried} attempts",
        )
        for cluster in found
        for advice in cluster.withdrawn
    ]


def _coding(sessions: Sequence[Session], commands: Sequence[CommandPattern]) -> list[Abstention]:
    """Why sessions that work through a shell became no program: their results are text, and each command differs."""
    calls: Counter[str] = Counter()
    shell: Counter[str] = Counter()
    distinct: dict[str, set[str]] = defaultdict(set)
    for session in sessions:
        for call, _ in session.exchanges():
            calls[session.project] += 1
            text = command_text(call)
            if text is not None:
                shell[session.project] += 1
                distinct[session.project].add(text)
    said: list[Abstention] = []
    for project, count in sorted(shell.items(), key=lambda item: (-item[1], item[0])):
        if count < 20 or count < 0.2 * calls[project]:
            continue
        recurring = sum(1 for command in commands if command.project == project)
        reason = (
            f"{count} of {calls[project]} calls are shell commands, {len(distinct[project])} of them different; "
            f"their results are text, so that no later argument can be bound to them. {recurring} commands recur "
            "and are listed"
        )
        said.append(Abstention(what=f"Programs from the coding sessions of {project}", reason=reason))
    return said[:3]


def _evidence(*groups: Sequence[Proposal | FailureCluster | CommandPattern | Gap | Contrast]) -> list[str]:
    return list(dict.fromkeys(page for group in groups for document in group for page in document.evidence[:CITED]))
