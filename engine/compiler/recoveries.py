"""Failures of a session, and what got past each of them.

A failure is a result that says so; a person's refusal is feedback, and a search without a match is an answer. A
failure counts as recovered when the same operation succeeded within the next six calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from instar.engine.compiler.changes import Change, ChangeKind
from instar.engine.compiler.comparison import (
    Comparison,
    Exchange,
    Operation,
    changes_between,
    operation_of,
    substitutes,
    tries_again,
)
from instar.engine.compiler.shell import NO_MATCH_HEADS, command_text, parse
from instar.engine.compiler.signatures import message_of, names_in, signature_of
from instar.engine.session import ResultStatus, Session, ToolCall, ToolResult

REACH = 6
"""Calls after a failure in which its recovery is looked for."""
OF_FORM = frozenset(
    {ChangeKind.PREFIXED, ChangeKind.SUFFIXED, ChangeKind.STRIPPED, ChangeKind.RESPELLED, ChangeKind.RETYPED}
)
"""Changes that can be seen on the two values alone."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A later call of the same operation (or one that stood in for it), and what was changed in it."""

    call: ToolCall
    result: ToolResult
    changes: tuple[Change, ...]
    past: bool
    """Whether this failure was got past: success, or an error about something else. A refusal is neither."""

    @property
    def worked(self) -> bool:
        """Whether it succeeded."""
        return self.result.status is ResultStatus.OK


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed call, with every attempt that followed within reach; `recovery` is the one that got past it."""

    session: Session
    call: ToolCall
    result: ToolResult
    operation: Operation
    signature: str
    message: str
    attempts: tuple[Attempt, ...]
    recovery: Attempt | None


def is_failure(call: ToolCall, result: ToolResult) -> bool:
    """Whether a result is the failure of a tool: neither a refusal nor a search that found nothing."""
    if result.status is not ResultStatus.ERROR:
        return False
    text = command_text(call)
    if text is None or message_of(result.error or "") not in {"", "(no output)", "(no content)"}:
        return True
    commands = parse(text)
    return not (commands and commands[-1].head in NO_MATCH_HEADS)


def failures_of(session: Session) -> list[Failure]:
    """Every failure of a session in order, each with its recovery where there was one."""
    exchanges = list(session.exchanges())
    found: list[Failure] = []
    for position, (call, result) in enumerate(exchanges):
        if result is None or not is_failure(call, result):
            continue
        message = message_of(result.error or "")
        signature = signature_of(result.error or "", _blankable(call))
        operation = operation_of(call)
        if "No module named" in signature:
            operation = Operation(operation.tool)
        elif "command not found" in signature:
            operation = Operation(operation.tool, (names_in(message) or [""])[0])
        attempts = _attempts(session, exchanges, position, message)
        found.append(Failure(session, call, result, operation, signature, message, attempts, _recovery(attempts)))
    return found


def _attempts(session: Session, exchanges: Sequence[Exchange], position: int, message: str) -> tuple[Attempt, ...]:
    call, result = exchanges[position]
    if result is None:
        return ()
    # Parallel calls stand before the result that failed; they are no answer to it.
    nearby = exchanges[position + 1 : position + 1 + 4 * REACH]
    later = [pair for pair in nearby if pair[0].index > result.index][:REACH]
    found: list[Attempt] = []
    for distance, (other, answer) in enumerate(later):
        if answer is None:
            continue
        between = [item for item in later[:distance] if item[1] and item[1].status is ResultStatus.OK]
        pair = Comparison(session, call, result, message, other, between)
        if tries_again(pair):
            found.append(Attempt(other, answer, changes_between(pair), _past(call, message, other, answer)))
        elif answer.status is ResultStatus.OK:
            instead = substitutes(pair)
            if instead:
                found.append(Attempt(other, answer, instead, past=True))
    return tuple(found)


def _recovery(attempts: Sequence[Attempt]) -> Attempt | None:
    """Of several parallel successes the one that belongs to the failure shares most with it; else the earliest."""
    worked = [(attempt, place) for place, attempt in enumerate(attempts) if attempt.worked]

    def order(item: tuple[Attempt, int]) -> tuple[bool, int]:
        attempt, place = item
        return not any(change.kind in OF_FORM for change in attempt.changes), place

    return min(worked, key=order)[0] if worked else None


def _past(failed: ToolCall, message: str, call: ToolCall, result: ToolResult) -> bool:
    if result.status is not ResultStatus.ERROR:
        return result.status is ResultStatus.OK
    error = result.error or ""
    if signature_of(message, _blankable(failed)) != signature_of(error, _blankable(call)):
        return True
    missing, still = set(names_in(message)), set(names_in(error))
    return bool(missing) and not missing & still


def _blankable(call: ToolCall) -> dict[str, JsonValue]:
    return {name: value for name, value in call.arguments.items() if name != "command"}
