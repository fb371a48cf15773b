"""How sessions and documents are laid out as pages, and read back.

A session is one `session` page and one `step` page for each step; their ids follow from the session, so that reading
the same log twice writes nothing twice. A document is one page that carries its fields.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TypeVar

from pydantic import JsonValue, TypeAdapter

from instar.engine.documents import Document
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
from instar.memstore import Page, PageDraft, PageType, Provenance, State

SESSION, STEP, TOOLSET, DISTILLED = "session", "step", "toolset", "distillation"
MEMORY, REFLECTION, PROPOSAL, PRD, DRAFT = "memory", "reflection", "proposal", "prd", "draft"
GATES, REVIEW, DECISION, PUBLICATION = "gate-report", "review", "decision", "publication"
STANDING, REVISION, REFUSAL = "standing", "revision", "refusal"

D = TypeVar("D", bound=Document)
_OBJECT: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])


def session_scope(root: str, session: Session) -> str:
    """The scope of a session's pages: the root and the project, as path segments that any scope accepts."""
    segments = [re.sub(r"[^A-Za-z0-9_.-]+", "-", part).strip("-.") for part in session.project.split("/")]
    return "/".join([root, *(segment for segment in segments if segment)])


def fingerprint(steps: Iterable[Step]) -> str:
    """SHA-256 over the steps; two sessions with the same fingerprint need no second look."""
    digest = hashlib.sha256()
    for step in steps:
        digest.update(json.dumps(_step_content(step), sort_keys=True, ensure_ascii=False).encode())
    return digest.hexdigest()


def session_content(session: Session, *, toolset: str, digest: str) -> dict[str, JsonValue]:
    """The fields of a session page."""
    return {
        "key": session.key,
        "format": session.format,
        "project": session.project,
        "task": session.task,
        "origin": session.origin.value,
        "outcome": session.outcome.status.value,
        "outcome_basis": session.outcome.basis,
        "reward": session.outcome.reward,
        "source": session.source,
        "started_at": _stamp(session.started_at),
        "toolset": toolset,
        "steps": len(session.steps),
        "fingerprint": digest,
    }


def session_draft(session: Session, scope: str, *, toolset: str, digest: str) -> PageDraft:
    """The page of the session itself."""
    return PageDraft(
        id=session.page_id,
        kind=SESSION,
        type=PageType.CONVERSATION,
        content=session_content(session, toolset=toolset, digest=digest),
        state=_OUTCOME_STATE[session.outcome.status],
        provenance=Provenance(source=f"{session.format}:{session.key}", references=()),
        session=session.page_id,
        created_at=happened(session.started_at),
    )


def step_draft(session: Session, step: Step) -> PageDraft:
    """The evidence page of one step."""
    failed = isinstance(step, ToolResult) and step.status is not ResultStatus.OK
    return PageDraft(
        id=session.evidence_id(step.index),
        kind=STEP,
        type=PageType.EVIDENCE,
        content=_step_content(step),
        state=State.ERROR if failed else State.SUCCESS,
        provenance=Provenance(source=f"{session.format}:{session.key}", references=()),
        tags=(f"tool:{step.tool}",) if isinstance(step, ToolCall | ToolResult) else (),
        parent=session.page_id,
        session=session.page_id,
        created_at=happened(step.at or session.started_at),
    )


def happened(at: datetime | None) -> datetime | None:
    """When something happened, by what a log says; None, the time of storing, for what no clock has shown yet."""
    if at is None:
        return None
    try:
        time = at.astimezone(UTC)
    except OverflowError:
        return None
    return None if time > datetime.now(UTC) else time


def toolset_id(tools: Sequence[ToolSchema], scope: str) -> str:
    """The id of the page that holds these tool schemas in a scope; empty when there are none."""
    if not tools:
        return ""
    text = json.dumps([scope, *(asdict(tool) for tool in tools)], sort_keys=True, ensure_ascii=False)
    return f"toolset-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def toolset_draft(tools: Sequence[ToolSchema], scope: str, source: str) -> PageDraft:
    """The page of the tools as they were offered; sessions share it."""
    return PageDraft(
        id=toolset_id(tools, scope),
        kind=TOOLSET,
        type=PageType.EVIDENCE,
        content=_OBJECT.validate_python({"tools": [asdict(tool) for tool in tools]}),
        provenance=Provenance(source=source, references=()),
    )


def document_draft(
    document: Document,
    kind: str,
    *,
    text: str = "",
    parent: str | None = None,
    session: str | None = None,
    created_at: datetime | None = None,
) -> PageDraft:
    """The page of a document; it refers to everything the document cites."""
    content = _OBJECT.validate_python(document.model_dump(mode="json"))
    cited = [*_strings(content.get("evidence")), *_strings(content.get("memories"))]
    return PageDraft(
        id=document.id,
        kind=kind,
        type=PageType.EVIDENCE,
        content=content,
        text=text,
        state=State.SUCCESS,
        provenance=Provenance(source=f"engine:{kind}", references=tuple(dict.fromkeys(cited))),
        parent=parent,
        session=session,
        created_at=created_at,
    )


def document(page: Page, model: type[D]) -> D:
    """Read a document back from its page."""
    return model.model_validate(page.content)


def read_session(page: Page, steps: Iterable[Page], tools: Sequence[ToolSchema] = ()) -> Session:
    """Rebuild the session from its pages; `steps` in any order."""
    content = page.content
    ordered = sorted((_read_step(step.content) for step in steps), key=lambda step: step.index)
    return Session(
        key=_text(content, "key"),
        format=_text(content, "format"),
        project=_text(content, "project"),
        task=_text(content, "task"),
        steps=tuple(ordered),
        outcome=Outcome(
            OutcomeStatus(_text(content, "outcome")), _text(content, "outcome_basis"), _number(content.get("reward"))
        ),
        origin=Origin(_text(content, "origin")),
        tools=tools,
        source=_text(content, "source"),
        started_at=_time(content.get("started_at")),
    )


def read_tools(page: Page) -> tuple[ToolSchema, ...]:
    """Read a toolset page back."""
    rows = page.content.get("tools")
    return TypeAdapter(tuple[ToolSchema, ...]).validate_python(rows)


_OUTCOME_STATE: Mapping[OutcomeStatus, State] = {
    OutcomeStatus.SUCCESS: State.SUCCESS,
    OutcomeStatus.FAILURE: State.ERROR,
    OutcomeStatus.UNKNOWN: State.INTERMEDIATE,
}


def _step_content(step: Step) -> dict[str, JsonValue]:
    shared: dict[str, JsonValue] = {"index": step.index, "at": _stamp(step.at)}
    match step:
        case Message():
            return shared | {"step": "message", "speaker": step.speaker.value, "text": step.text}
        case ToolCall():
            return shared | {
                "step": "call",
                "call_id": step.call_id,
                "tool": step.tool,
                "arguments": step.arguments,
                "turn": step.turn,
            }
        case ToolResult():
            return shared | {
                "step": "result",
                "call_id": step.call_id,
                "tool": step.tool,
                "value": step.value,
                "status": step.status.value,
                "error": step.error,
            }


def _read_step(content: Mapping[str, JsonValue]) -> Step:
    index, at = int(_number(content["index"]) or 0), _time(content.get("at"))
    kind = content["step"]
    if kind == "message":
        return Message(index, Speaker(_text(content, "speaker")), _text(content, "text"), at)
    if kind == "call":
        arguments = content["arguments"]
        return ToolCall(
            index,
            _text(content, "call_id"),
            _text(content, "tool"),
            arguments if isinstance(arguments, dict) else {},
            int(_number(content["turn"]) or 0),
            at,
        )
    error = content.get("error")
    return ToolResult(
        index,
        _text(content, "call_id"),
        _text(content, "tool"),
        content.get("value"),
        ResultStatus(_text(content, "status")),
        error if isinstance(error, str) else None,
        at,
    )


def _stamp(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _time(value: JsonValue) -> datetime | None:
    return datetime.fromisoformat(value) if isinstance(value, str) else None


def _text(content: Mapping[str, JsonValue], name: str) -> str:
    value = content[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} is {type(value).__name__}, expected text")
    return value


def _number(value: JsonValue) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _strings(value: JsonValue) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
