"""What failures teach: clusters of the same failure, and the advice that its recoveries agree on.

The advice of a cluster is a short decision list. Each entry was learned from recoveries to which it applies, says so
with its counts, and is withdrawn when the attempts that followed it failed too often or were refused by the user.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from instar.engine.compiler.changes import Change, ChangeKind, flat, overrides
from instar.engine.compiler.comparison import Operation
from instar.engine.compiler.recoveries import OF_FORM, Failure, failures_of
from instar.engine.compiler.shell import command_text
from instar.engine.plan import Support
from instar.engine.session import Session

_FILE_TOOL = re.compile(r"(?i)(read|write|edit|view|file|glob|grep|notebook|list)")


@dataclass(frozen=True, slots=True)
class LessonSettings:
    """When recoveries agree well enough to be advised."""

    min_tasks: int = 2
    min_agreement: float = 0.6
    """Share of the recoveries to which an advice applies that must show it."""
    wide_agreement: float = 0.8
    """Share above which advice is chosen by how telling it is."""
    min_worked: float = 0.7
    """Share of the attempts with this change that must have succeeded."""
    max_advice: int = 2
    min_repeats: int = 5
    """Unchanged repeats that must all have failed before repeating is advised against."""


@dataclass(frozen=True, slots=True)
class Advice:
    """A change to make, with the counts it rests on."""

    change: Change
    tasks: int
    seen: int
    """Recoveries that show the change."""
    applicable: int
    """Recoveries to which it applied."""
    tried: int
    """Attempts with this change, whatever came of them."""
    worked: int
    """Those of them that got past the error."""

    @property
    def holds(self) -> float:
        """The share of attempts that succeeded."""
        return self.worked / self.tried if self.tried else 0.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """The same failure of the same operation, over sessions."""

    scope: str
    operation: Operation
    signature: str
    failures: tuple[Failure, ...]
    advice: tuple[Advice, ...]
    withdrawn: tuple[Advice, ...]
    futile_repeats: int
    """Calls that were repeated unchanged and failed again, where no repeat ever worked."""

    @property
    def support(self) -> Support:
        """In how many sessions and tasks it was seen, and how often."""
        sessions = {failure.session.page_id for failure in self.failures}
        tasks = {task_of(failure.session) for failure in self.failures}
        return Support(sessions=len(sessions), tasks=len(tasks), calls=len(self.failures))

    @property
    def recovered(self) -> int:
        """Failures that the same operation got past."""
        return sum(failure.recovery is not None for failure in self.failures)

    def advice_for(self, arguments: Mapping[str, JsonValue]) -> Advice | None:
        """The first advice that applies to a call with these arguments."""
        return next((advice for advice in self.advice if advice.change.applies(arguments)), None)

    def lesson(self) -> str:
        """The advice as one sentence with its counts, and whether repeating ever helped; empty when there is none."""
        parts = [
            f"{advice.change.advice()} (got past it in {advice.worked} of {advice.tried} attempts)"
            for advice in self.advice
        ]
        told = ["; otherwise ".join(parts)] if parts else []
        if self.futile_repeats:
            told.append(f"do not repeat it unchanged: all {self.futile_repeats} repeats failed")
        return " ".join(f"{sentence[:1].upper()}{sentence[1:]}." for sentence in told)


def task_of(session: Session) -> tuple[str, str]:
    """What counts as one task: equal task names of different projects are different tasks."""
    return session.project, session.task


def clusters(sessions: Iterable[Session], settings: LessonSettings = LessonSettings()) -> list[Cluster]:
    """The failure clusters of sessions, the best supported first; the order of the sessions does not matter."""
    groups: dict[tuple[str, Operation, str], list[Failure]] = defaultdict(list)
    for session in sessions:
        for failure in failures_of(session):
            groups[_scope(failure), failure.operation, failure.signature].append(failure)
    found = [
        _cluster(scope, operation, signature, failures, settings)
        for (scope, operation, signature), failures in groups.items()
    ]
    return sorted(
        found,
        key=lambda cluster: (
            -cluster.support.tasks,
            -len(cluster.failures),
            cluster.scope,
            cluster.operation.tool,
            cluster.operation.head,
            cluster.signature,
        ),
    )


def _scope(failure: Failure) -> str:
    """A project's own tools are compared within the project; shells and file tools are the same everywhere."""
    call = failure.call
    files = bool({"path", "file_path"} & set(call.arguments)) and bool(_FILE_TOOL.search(call.tool))
    return "" if files or command_text(call) is not None else failure.session.project


def _cluster(
    scope: str, operation: Operation, signature: str, failures: Sequence[Failure], settings: LessonSettings
) -> Cluster:
    ordered = tuple(sorted(failures, key=lambda failure: (failure.session.page_id, failure.call.index)))
    tried: Counter[Change] = Counter()
    worked: Counter[Change] = Counter()
    for failure in ordered:
        for attempt in failure.attempts:
            tried.update(set(attempt.changes))
            if attempt.past:
                worked.update(set(attempt.changes))
    recovered = [failure for failure in ordered if failure.recovery is not None]
    candidates = _candidates(recovered, tried, worked, settings)
    withdrawn = [advice for advice in candidates if advice.holds < settings.min_worked]
    chosen = _decision_list([a for a in candidates if a.holds >= settings.min_worked], recovered, signature, settings)
    repeats = 0 if worked[Change(ChangeKind.REPEATED)] else _repeats(ordered)
    futile = repeats if repeats >= settings.min_repeats else 0
    return Cluster(scope, operation, signature, ordered, chosen, tuple(withdrawn), futile)


def _repeats(failures: Sequence[Failure]) -> int:
    """Failures whose call had failed unchanged before in the same session."""
    calls = [(failure.session.page_id, json.dumps(failure.call.arguments, sort_keys=True)) for failure in failures]
    return len(calls) - len(set(calls))


def _decision_list(
    candidates: Sequence[Advice], recovered: Sequence[Failure], signature: str, settings: LessonSettings
) -> tuple[Advice, ...]:
    """The best advice first; then the best for those calls to which it does not apply."""
    chosen: list[Advice] = []
    remaining = list(recovered)

    def order(advice: Advice) -> tuple[bool, bool, tuple[int, str, str, str]]:
        # Advice that is widely agreed on is ordered by what it says, not by a session more or less.
        agreed = advice.seen >= settings.wide_agreement * advice.applicable
        return not _mentioned(advice.change, signature), not agreed, advice.change.rank

    for advice in sorted(candidates, key=order):
        if len(chosen) < settings.max_advice and any(advice.change.applies(f.call.arguments) for f in remaining):
            chosen.append(advice)
            remaining = [f for f in remaining if not advice.change.applies(f.call.arguments)]
    return tuple(chosen)


def _candidates(
    failures: Sequence[Failure], tried: Counter[Change], worked: Counter[Change], settings: LessonSettings
) -> list[Advice]:
    showing: dict[Change, list[Failure]] = defaultdict(list)
    for failure in failures:
        for change in set(failure.recovery.changes if failure.recovery else ()):
            showing[change].append(failure)
    found: list[Advice] = []
    for change in sorted(showing, key=lambda change: change.rank):
        shown = showing[change]
        tasks = {task_of(failure.session) for failure in shown}
        if len(tasks) < settings.min_tasks or not _general(change, shown) or overrides(change):
            continue
        applicable = sum(change.applies(failure.call.arguments) for failure in failures)
        if applicable and len(shown) / applicable >= settings.min_agreement:
            found.append(Advice(change, len(tasks), len(shown), applicable, tried[change], worked[change]))
    return found


def _mentioned(change: Change, signature: str) -> bool:
    """Whether the error speaks of the argument that was changed, or of the one that took its place."""
    said = change.detail if change.kind is ChangeKind.RENAMED else change.argument
    name = said.replace("[]", "").rsplit(".", 1)[-1]
    return len(name) > 2 and name in signature


def _general(change: Change, failures: Sequence[Failure]) -> bool:
    """A change of form must have been made on more than one value: otherwise it is that value's story."""
    if change.kind not in OF_FORM:
        return True
    values = {str(flat(failure.call.arguments).get(change.argument)) for failure in failures}
    return len(values) >= 2 or change.kind in {ChangeKind.RETYPED, ChangeKind.RESPELLED}
