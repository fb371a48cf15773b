"""Sessions as a model is shown them: numbered steps, cut to a number of tokens, never more than that."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from instar.engine.session import Message, ResultStatus, Session, Step, ToolCall
from instar.memstore.tokens import count_tokens

CUTS = (2_000, 800, 300, 120)
"""Characters of one step, from generous to terse; the first with which everything fits is taken."""
KEPT_ENDS = 12
"""Steps shown from the beginning and from the end of a session that is still too long."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What is shown of a session, and which steps that are; only those can be cited."""

    text: str
    shown: frozenset[int]


def excerpt(session: Session, tokens: int) -> Excerpt:
    """The session within `tokens`; where even short steps are too many, failures and both ends are kept."""
    steps = list(session.steps)
    for limit in CUTS:
        lines = [line_of(step, limit) for step in steps]
        if _fits(lines, tokens):
            return Excerpt("\n".join(lines), frozenset(step.index for step in steps))
    ends = {step.index for step in (*steps[:KEPT_ENDS], *steps[-KEPT_ENDS:])}
    telling = [step for step in steps if step.index in ends or _failed(step)]
    while telling and not _fits([line_of(step, CUTS[-1]) for step in telling], tokens):
        del telling[len(telling) // 2]
    lines = [line_of(step, CUTS[-1]) for step in telling]
    return Excerpt("\n".join(lines), frozenset(step.index for step in telling))


def line_of(step: Step, limit: int) -> str:
    """One step on one line: its number, who or what, and as much of the content as the limit allows."""
    if isinstance(step, Message):
        return f"[{step.index}] {step.speaker.value}: {_cut(step.text, limit)}"
    if isinstance(step, ToolCall):
        return f"[{step.index}] calls {step.tool} {_cut(_json(step.arguments), limit)}"
    how = {ResultStatus.OK: "answered", ResultStatus.ERROR: "FAILED", ResultStatus.REFUSED: "REFUSED by the user"}
    content = step.error if step.error is not None else _json(step.value)
    return f"[{step.index}] {step.tool} {how[step.status]}: {_cut(content, limit)}"


def content_of(step: Step) -> str:
    """Everything that a step says, for looking quotations up."""
    if isinstance(step, Message):
        return step.text
    if isinstance(step, ToolCall):
        return f"{step.tool} {_json(step.arguments)}"
    return f"{step.tool} {step.error or ''} {_json(step.value)}"


def _failed(step: Step) -> bool:
    return not isinstance(step, Message | ToolCall) and step.status is not ResultStatus.OK


def _json(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cut(text: str, limit: int) -> str:
    flat = " ".join(text[: 4 * limit].split())
    return flat if len(flat) <= limit else f"{flat[:limit]}…"


def _fits(lines: Sequence[str], tokens: int) -> bool:
    text = "\n".join(lines)
    # A token has four characters or so; where it is far too long there is no need to count.
    return len(text) <= 12 * tokens and count_tokens(text) <= tokens
