"""Recorded tools that did what a built-in tool does: read as that tool, so that a skill can be written without them.

Agents fetch pages and read files through tools of many names. Where the user says that one of them is a built-in by
another name, its calls are read as the built-in's: the same steps, the same evidence pages, the arguments and answers
in the built-in's form. A call that has not that form stays what it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pydantic import JsonValue

from instar.engine.documents import Window
from instar.engine.session import ResultStatus, Session, Step, ToolResult
from instar.sandbox.errors import ToolError
from instar.sandbox.reach import BUILT_IN, PAGES, READS, WRITES, place_of


def read_as_built_in(window: Window, same_as: Mapping[str, str]) -> Window:
    """The window with the calls of these tools read as those of the built-in tool that each stands for."""
    if not same_as:
        return window
    return replace(window, sessions=[_session(session, same_as) for session in window.sessions])


def _session(session: Session, same_as: Mapping[str, str]) -> Session:
    told: dict[int, Step] = {}
    for call, result in session.exchanges():
        tool = same_as.get(call.tool, "")
        arguments = _arguments(tool, call.arguments)
        if result is None or arguments is None or not _answers_text(tool, result):
            continue
        told[call.index] = replace(call, tool=tool, arguments=arguments)
        told[result.index] = replace(result, tool=tool, value=_value(tool, arguments, result))
    return replace(session, steps=tuple(told.get(step.index, step) for step in session.steps)) if told else session


def _arguments(tool: str, given: Mapping[str, JsonValue]) -> dict[str, JsonValue] | None:
    """The built-in's arguments, where one argument is the place, and of a write one other the text."""
    if tool not in BUILT_IN or len(given) != (2 if tool == WRITES else 1):
        return None
    places = [name for name, value in given.items() if _is_place(tool, value)]
    texts = [value for name, value in given.items() if name not in places and isinstance(value, str)]
    if len(places) != 1 or len(texts) != len(given) - 1:
        return None
    found: dict[str, JsonValue] = {BUILT_IN[tool]: given[places[0]]}
    return found | {"text": texts[0]} if texts else found


def _is_place(tool: str, value: JsonValue) -> bool:
    try:
        place_of(tool, value)
    except ToolError:
        return False
    return True


def _answers_text(tool: str, result: ToolResult) -> bool:
    return tool == WRITES or result.status is not ResultStatus.OK or isinstance(result.value, str)


def _value(tool: str, arguments: Mapping[str, JsonValue], result: ToolResult) -> JsonValue:
    if result.status is not ResultStatus.OK or tool == READS:
        return result.value
    if tool == PAGES:
        return {"status": 200, "type": "", "text": result.value}
    return {"bytes": len(str(arguments["text"]).encode())}
