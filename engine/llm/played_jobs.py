"""A stand-in for a model that knows one job: finds it in every session, and writes the same program for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from pydantic import JsonValue

from instar.engine.llm.played import GOOD, Answers
from instar.engine.session import (
    Message,
    Outcome,
    OutcomeStatus,
    ResultStatus,
    Session,
    Speaker,
    Step,
    ToolCall,
    ToolResult,
)

Exchange = tuple[str, dict[str, JsonValue], JsonValue]
"""A tool, its arguments, and what it returned."""


def recorded(number: int, request: str, exchanges: Sequence[Exchange], said: str) -> Session:
    """A session in which a user asks, tools answer, and the assistant says what came of it."""
    steps: list[Step] = [Message(0, Speaker.USER, request)]
    for turn, (tool, arguments, value) in enumerate(exchanges):
        steps.append(ToolCall(len(steps), f"c{turn}", tool, arguments, turn))
        steps.append(ToolResult(len(steps), f"c{turn}", tool, value, ResultStatus.OK))
    steps.append(Message(len(steps), Speaker.ASSISTANT, said))
    outcome = Outcome(OutcomeStatus.SUCCESS, "reward", 1.0)
    return Session(f"document-{number}", "test", "office", f"task-{number}", tuple(steps), outcome)


def knowing(
    use: Callable[[str], JsonValue], code: str, tools: Sequence[str], wheels: Sequence[str], **told: JsonValue
) -> Answers:
    """Its answers. `use` reads out of a session how the program would be called there; `told` are the fields of the
    suggestion (skill, title, summary) and of the requirement (purpose, when_to_use, inputs, output_type)."""
    specified = dict(GOOD["specified"](""))  # type: ignore[arg-type]
    suggested = dict(GOOD["suggested"](""))  # type: ignore[arg-type]
    return {
        **GOOD,
        "distilled": lambda _: {"memories": [], "instructions_found": []},
        "grouped": lambda text: {"groups": [{"what": "turn a document", "sessions": _numbers(text)}]},
        "found": lambda text: {
            "recurs": True, "why": "", "steps": ["Get it.", "Turn it."], "tools": list(tools),
            "sessions": _numbers(text),
        },
        "suggested": lambda _: {**suggested, **{k: told[k] for k in ("skill", "title", "summary")}, "against": []},
        "specified": lambda _: {
            **specified,
            **{k: told[k] for k in ("title", "purpose", "when_to_use", "inputs", "output_type")},
            "when_not_to_use": ["It was done already"],
            "output_meaning": "What was asked for.",
            "tools": [{"name": tool, "why": "It is called for the job."} for tool in tools],
            "wheels": list(wheels),
            "risks": [],
        },
        "recordeduse": use,
        "designed": lambda _: {"steps": ["Get it.", "Turn it."], "edge_cases": []},
        "coded": lambda _: {"code": code},
    }  # fmt: skip


def _numbers(text: str) -> list[JsonValue]:
    found = re.findall(r"^(?:session )?\[(\d+)\](?: \"|$)", text, re.MULTILINE)
    return [int(number) for number in dict.fromkeys(found)]
