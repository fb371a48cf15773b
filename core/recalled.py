"""What an agent recalled is not what it went through: it is taken out of a session before anything is learned."""

from __future__ import annotations

from dataclasses import replace

from pydantic import JsonValue

from instar.engine.session import Message, Session, Step, ToolResult
from instar.memstore import quoting

_GONE = "[recalled]"


def without_recalled(session: Session) -> Session:
    """The same session, in which of recalled text only is left that there was some; steps keep their places."""
    steps = tuple(_step(step) for step in session.steps)
    task = quoting.without_recalled(session.task)
    same = task == session.task and all(new is old for new, old in zip(steps, session.steps, strict=True))
    return session if same else replace(session, task=task, steps=steps)


def _step(step: Step) -> Step:
    match step:
        case Message():
            text = quoting.without_recalled(step.text)
            return step if text == step.text else replace(step, text=text)
        case ToolResult() if quoting.OWN_TOOL.search(step.tool):
            return replace(step, value=_GONE, error=None if step.error is None else _GONE)
        case ToolResult():
            value = _value(step.value)
            error = None if step.error is None else quoting.without_recalled(step.error)
            same = value == step.value and error == step.error
            return step if same else replace(step, value=value, error=error)
        case _:
            return step


def _value(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return quoting.without_recalled(value)
        case list():
            return [_value(item) for item in value]
        case dict():
            return {name: _value(item) for name, item in value.items()}
        case _:
            return value
