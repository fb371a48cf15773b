"""A live session that ended, in the form that the engines learn from."""

from __future__ import annotations

from pydantic import JsonValue

from instar.core.live import LIVE, MESSAGE, OUTCOME, TOOL_CALL, Event, live_scope
from instar.core.runtime import Runtime
from instar.engine.session import (
    Message,
    Origin,
    Outcome,
    OutcomeStatus,
    ResultStatus,
    Session,
    Speaker,
    Step,
    ToolCall,
    ToolResult,
    ToolSchema,
)
from instar.memstore import Page, State

FORMAT = f"instar-{LIVE}"


def live_session(rt: Runtime, event: Event) -> Session | None:
    """The session that an event belongs to, from its pages; None when nothing was recorded in it."""
    scope = live_scope(rt.settings.scope, event.project, event.run)
    pages = sorted(rt.store.find(rt.principal, scope=scope, session=event.run), key=lambda page: page.created_at)
    groups = _turns(pages)
    steps: list[Step] = []
    turn = 0
    for group in groups:
        _add(steps, turn, group)
        turn += group[0].kind == TOOL_CALL
    if not steps:
        return None
    outcomes = [page for page in pages if page.kind == OUTCOME]
    asked = next((step.text for step in steps if isinstance(step, Message) and step.speaker is Speaker.USER), "")
    return Session(
        key=event.session,
        format=FORMAT,
        project=event.project,
        task=event.text("task") or asked or event.session,
        steps=tuple(steps),
        outcome=_outcome(outcomes[-1]) if outcomes else Outcome(),
        origin=Origin(event.text("origin")) if event.text("origin") in list(Origin) else Origin.INTERACTIVE,
        tools=_tools(event),
        source=f"{LIVE}:{event.agent}",
        started_at=pages[0].created_at,
    )


def _tools(event: Event) -> tuple[ToolSchema, ...]:
    """The tools that the agent was offered, as far as it said."""
    names = event.fields.get("tools")
    return tuple(ToolSchema(name) for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def _turns(pages: list[Page]) -> list[list[Page]]:
    """Messages one by one; calls that were made together, together."""
    groups: list[list[Page]] = []
    for page in pages:
        if page.kind not in (MESSAGE, TOOL_CALL):
            continue
        if groups and _together(groups[-1][-1], page):
            groups[-1].append(page)
        else:
            groups.append([page])
    return groups


def _together(before: Page, page: Page) -> bool:
    turn = page.content.get("turn")
    return page.kind == before.kind == TOOL_CALL and turn is not None and before.content.get("turn") == turn


def _add(steps: list[Step], turn: int, group: list[Page]) -> None:
    if group[0].kind == MESSAGE:
        page = group[0]
        speaker = str(page.content.get("speaker"))
        known = Speaker(speaker) if speaker in list(Speaker) else Speaker.ASSISTANT
        steps.append(Message(len(steps), known, page.text, page.created_at))
        return
    for page in group:
        arguments = page.content.get("arguments")
        call_arguments: dict[str, JsonValue] = arguments if isinstance(arguments, dict) else {}
        steps.append(
            ToolCall(len(steps), page.id, str(page.content.get("tool")), call_arguments, turn, page.created_at)
        )
    for page in group:
        if page.state is State.PENDING:
            continue
        failed = page.state is State.ERROR
        steps.append(
            ToolResult(
                len(steps),
                page.id,
                str(page.content.get("tool")),
                page.content.get("value"),
                ResultStatus.ERROR if failed else ResultStatus.OK,
                str(page.content.get("error", "")) if failed else None,
                page.updated_at,
            )
        )


def _outcome(page: Page) -> Outcome:
    status = str(page.content.get("status"))
    known = OutcomeStatus(status) if status in list(OutcomeStatus) else OutcomeStatus.UNKNOWN
    return Outcome(known, str(page.content.get("basis") or "agent"))
