"""What one session taught: few statements, each with the steps it rests on.

Nothing is concluded from words in pasted text. The outcome is what was recorded beside the session; failures,
recoveries and refusals are what results say.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from itertools import groupby
from typing import Literal

from pydantic import JsonValue

from instar.engine.compiler.recoveries import Failure, failures_of
from instar.engine.documents import Memory, MemoryKind
from instar.engine.session import Message, OutcomeStatus, ResultStatus, Session, Speaker, ToolCall, ToolResult

VALUE = 80
"""Characters that a value may take in a statement."""
MAX_FAILURES = 8
"""Distinct failures told per session, the most frequent first."""
_REASON = re.compile(r"\bthe user said:\s*(\S.*)", re.DOTALL)
"""How a host hands on what the user said with a refusal."""
MAX_STEPS = 12
"""Tools named in the procedure."""


def distill(session: Session) -> list[Memory]:
    """The memories of a session: outcome, procedure, failures, recoveries, feedback; the same at every run.

    A session without a tool call yields its outcome only; one without a recorded step yields nothing.
    """
    if not session.steps:
        return []
    memories = [_outcome(session)]
    exchanges = list(session.exchanges())
    if exchanges:
        memories += _procedure(session, [call for call, _ in exchanges])
        memories += _failures(session)
        memories += _feedback(session, [(call, result) for call, result in exchanges if result is not None])
    return memories


def brief(value: JsonValue, limit: int = VALUE) -> str:
    """A value on one line, cut at `limit` characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
    text = " ".join(text[: 4 * limit].split())
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _memory(
    session: Session,
    kind: MemoryKind,
    statement: str,
    evidence: Sequence[int],
    *,
    tool: str = "",
    status: Literal["", "success", "error"] = "",
    tags: Sequence[str] = (),
) -> Memory:
    cited = [session.evidence_id(index) for index in dict.fromkeys(evidence)]
    # The evidence belongs to the identity: the same words about another moment are another memory.
    whole = json.dumps([session.page_id, kind, statement, cited, tool, status, list(tags)])
    return Memory(
        id=f"memory-{hashlib.sha256(whole.encode()).hexdigest()[:16]}",
        kind=kind,
        session=session.page_id,
        statement=statement,
        evidence=cited,
        tool=tool,
        status=status,
        tags=list(tags),
    )


def _outcome(session: Session) -> Memory:
    outcome = session.outcome
    basis = f" (recorded as {brief(outcome.basis)}" if outcome.basis else ""
    if basis:
        basis += f" {outcome.reward:g})" if outcome.reward is not None else ")"
    statement = {
        OutcomeStatus.SUCCESS: f"The task succeeded{basis}.",
        OutcomeStatus.FAILURE: f"The task failed{basis}.",
        OutcomeStatus.UNKNOWN: "How the task ended was not recorded.",
    }[outcome.status]
    status: Literal["", "success", "error"] = ""
    if outcome.status is not OutcomeStatus.UNKNOWN:
        status = "success" if outcome.status is OutcomeStatus.SUCCESS else "error"
    last = session.steps[-1].index
    return _memory(session, MemoryKind.OUTCOME, statement, [last], status=status, tags=[outcome.status.value])


def _procedure(session: Session, calls: Sequence[ToolCall]) -> list[Memory]:
    runs = [(tool, len(list(group))) for tool, group in groupby(calls, key=lambda call: call.tool)]
    named = [tool if count == 1 else f"{tool} ×{count}" for tool, count in runs[:MAX_STEPS]]
    more = f", and {len(runs) - MAX_STEPS} further steps" if len(runs) > MAX_STEPS else ""
    statement = f"Called {', '.join(named)}{more} ({len(calls)} calls)."
    return [_memory(session, MemoryKind.PROCEDURE, statement, [call.index for call in calls[:MAX_STEPS]])]


def _failures(session: Session) -> list[Memory]:
    distinct: dict[tuple[str, str, str], list[Failure]] = {}
    for failure in failures_of(session):
        key = failure.operation.tool, failure.operation.head, failure.signature
        distinct.setdefault(key, []).append(failure)
    told = sorted(distinct.values(), key=lambda group: (-len(group), group[0].call.index))[:MAX_FAILURES]
    memories: list[Memory] = []
    for group in sorted(told, key=lambda group: group[0].call.index):
        first = group[0]
        times = "" if len(group) == 1 else f", {len(group)} times"
        arguments = brief(first.call.arguments)
        said = brief(first.message) or "nothing"
        memories.append(
            _memory(
                session,
                MemoryKind.FAILURE,
                f"{first.call.tool} failed{times}: it answered “{said}” to {arguments}.",
                [index for failure in group[:5] for index in (failure.call.index, failure.result.index)],
                tool=first.call.tool,
                status="error",
            )
        )
        recovered = next((failure for failure in group if failure.recovery is not None), None)
        if recovered is not None:
            memories.append(_recovery(session, recovered))
    return memories


def _recovery(session: Session, failure: Failure) -> Memory:
    attempt = failure.recovery
    assert attempt is not None  # noqa: S101 — the caller chose a failure that was recovered
    changed = attempt.changes[:2]
    how = " and ".join(change.advice() for change in changed) if changed else "call it with other arguments"
    statement = (
        f"After “{brief(failure.message)}” {attempt.call.tool} succeeded with {brief(attempt.call.arguments)}: {how}."
    )
    indices = [failure.call.index, failure.result.index, attempt.call.index, attempt.result.index]
    return _memory(session, MemoryKind.RECOVERY, statement, indices, tool=attempt.call.tool, status="success")


def _feedback(session: Session, exchanges: Sequence[tuple[ToolCall, ToolResult]]) -> list[Memory]:
    memories: list[Memory] = []
    for call, result in exchanges:
        if result.status is not ResultStatus.REFUSED:
            continue
        evidence = [call.index, result.index]
        statement = f"The user refused {call.tool} with {brief(call.arguments)}."
        said = _next_words(session, result.index)
        reason = _REASON.search((result.error or "")[:4_000])
        if reason is not None:
            statement = f"{statement[:-1]}, and said: “{brief(reason[1])}”."
        elif said is not None:
            evidence.append(said.index)
            statement = f"{statement[:-1]}, and said next: “{brief(said.text)}”."
        memories.append(_memory(session, MemoryKind.FEEDBACK, statement, evidence, tool=call.tool, tags=["refused"]))
    return memories


def _next_words(session: Session, index: int) -> Message | None:
    """What the user said before the agent did anything else."""
    for step in session.steps[index + 1 : index + 6]:
        if isinstance(step, Message) and step.speaker is Speaker.USER:
            return None if step.text.startswith("[Request interrupted") else step
        if isinstance(step, ToolCall) or (isinstance(step, Message) and step.speaker is Speaker.ASSISTANT):
            return None
    return None
