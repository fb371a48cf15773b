"""Recorded uses of a skill that a model wrote: told by a model, step by step, and believed only as far as recorded.

A use is a case when its arguments stand in the session before its first call, its calls are calls of this session
with their recorded answers, and what it returns is a recorded value or made of values of the session only.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence

import jsonschema
from pydantic import JsonValue

from instar.engine.compiler.cases import TaskCase, case_name
from instar.engine.compiler.values import Missing, step_into
from instar.engine.documents import ToolNeed
from instar.engine.llm.answers import NotTheShape, json_in, value_of
from instar.engine.llm.asker import Asker
from instar.engine.llm.errors import Unusable
from instar.engine.llm.evidence import folded
from instar.engine.llm.excerpts import content_of, excerpt
from instar.engine.llm.shapes import RecordedUse
from instar.engine.session import Session, Speaker, Step, ToolCall, ToolResult
from instar.sandbox.reach import out_of_reach
from instar.skills.cases import Case, RecordedCall

PROMPT = "model_case.md.j2"
MAX_CASE = 150_000
"""Characters of one case: eight of them and as many hold-outs fit into a package."""
MIN_TEXT = 2
"""Characters of a text that is looked up."""


class NoUse(ValueError):
    """The session is no recorded use; `str()` says why."""


def recorded_use(
    asker: Asker, session: Session, interface: str, schemas: tuple[dict[str, JsonValue], dict[str, JsonValue]],
    tools: Sequence[ToolNeed],
) -> TaskCase | None:  # fmt: skip
    """The case of one session, or None where it is no use of the skill or cannot be proven to be one.

    `schemas` are those of the input and of the output.

    Raises:
        ModelError: the model could not be asked.
    """
    shown = excerpt(session, asker.room("judge", PROMPT))
    try:
        answer = asker.ask(
            "judge", PROMPT, RecordedUse, document=session.page_id, interface=interface, steps=shown.text
        )
    except Unusable:
        return None  # noted already
    if not answer.applies:
        return None
    try:
        case, evidence = _case(answer, session, schemas, {tool.name: tool.reach for tool in tools})
    except NoUse as reason:
        asker.note("judge", session.page_id, reason=str(reason), statement=answer.arguments_json)
        return None
    asker.note("judge", session.page_id, reason="", statement=answer.arguments_json)
    return TaskCase(session.task, case.model_copy(update={"name": case_name(session.task, 0)}), evidence)


def _case(
    answer: RecordedUse,
    session: Session,
    schemas: tuple[dict[str, JsonValue], dict[str, JsonValue]],
    tools: Mapping[str, Collection[str]],
) -> tuple[Case, tuple[str, ...]]:
    steps: Mapping[int, Step] = {step.index: step for step in session.steps}
    results = {step.call_id: step for step in session.steps if isinstance(step, ToolResult)}
    calls: list[RecordedCall] = []
    pages: list[int] = []
    for ref in dict.fromkeys(answer.calls):
        call = steps.get(ref)
        if not isinstance(call, ToolCall) or call.tool not in tools:
            raise NoUse("takes a step for a call of one of its tools that is none")
        result = results.get(call.call_id)
        if result is None:
            raise NoUse("needs a call that was not answered")
        if out_of_reach(call.tool, tools[call.tool], call.arguments):
            raise NoUse("needs a call to a place that too few tasks reached to be granted")
        calls.append(
            RecordedCall(
                tool=call.tool,
                arguments=call.arguments,
                result=None if result.error is not None else result.value,
                error=result.error,
            )
        )
        pages += [call.index, result.index]
    try:
        arguments = json_in(answer.arguments_json or "{}")
    except NotTheShape as problem:
        raise NoUse(f"its arguments: {problem}") from None
    first = min((ref for ref in answer.calls), default=len(session.steps) + 1)
    _valid(arguments, schemas[0], "its arguments")
    before = folded("\n".join(content_of(s) for s in session.steps if s.index < first and not _of_agent(s)))
    _stands_in(arguments, before, "an argument")
    returns = _returned(answer, steps, {call.call_id for call in _calls(answer, steps)}, session)
    _valid(returns, schemas[1], "what it returns")
    if answer.returns_ref in steps:
        pages.append(answer.returns_ref)
    case = Case(name="", arguments=arguments, calls=calls, returns=returns)
    if len(case.model_dump_json()) > MAX_CASE:
        raise NoUse("is too large for a package")
    return (
        case,
        tuple(session.evidence_id(index) for index in sorted(set(pages))),
    )


def _calls(answer: RecordedUse, steps: Mapping[int, Step]) -> Iterator[ToolCall]:
    for ref in answer.calls:
        step = steps.get(ref)
        if isinstance(step, ToolCall):
            yield step


def _of_agent(step: Step) -> bool:
    return isinstance(step, ToolCall) or getattr(step, "speaker", None) is Speaker.ASSISTANT


def _returned(answer: RecordedUse, steps: Mapping[int, Step], calls: set[str], session: Session) -> JsonValue:
    if answer.returns_ref:
        step = steps.get(answer.returns_ref)
        if not isinstance(step, ToolResult) or step.call_id not in calls or step.error is not None:
            raise NoUse("returns the result of a call that it does not make")
        value: JsonValue = step.value
        try:
            for part in answer.returns_path:
                value = step_into(value, part)
        except Missing:
            raise NoUse("returns a part that its result has not") from None
        return value
    try:
        value = value_of(answer.returns_json)
    except NotTheShape as problem:
        raise NoUse(f"what it returns: {problem}") from None
    _stands_in(value, folded("\n".join(content_of(step) for step in session.steps)), "what it returns")
    return value


def _stands_in(value: JsonValue, text: str, what: str) -> None:
    """Check that every text and number of a value stands in the text; short ones say nothing and pass."""
    if isinstance(value, dict):
        for item in value.values():
            _stands_in(item, text, what)
    elif isinstance(value, list):
        for item in value:
            _stands_in(item, text, what)
    elif isinstance(value, str):
        if len(value) >= MIN_TEXT and folded(value) not in text:
            raise NoUse(f"{what} stands nowhere in the session")
    elif isinstance(value, int | float) and not isinstance(value, bool) and json.dumps(value) not in text:
        raise NoUse(f"{what} stands nowhere in the session")


def _valid(value: JsonValue, schema: dict[str, JsonValue], what: str) -> None:
    try:
        jsonschema.validate(value, schema)
    except jsonschema.ValidationError as error:
        raise NoUse(f"{what}: {error.message[:120]}") from None
