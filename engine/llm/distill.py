"""What a model says one session taught, less everything that the session does not show."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence

from instar.engine.documents import Memory, MemoryKind
from instar.engine.llm.asker import Asker
from instar.engine.llm.evidence import REPEATS, folded, unsupported
from instar.engine.llm.excerpts import Excerpt, excerpt
from instar.engine.llm.instructions import DIRECTING, REPEATED, SUSPECTED, attempts_in
from instar.engine.llm.shapes import Distilled, DistilledTogether, Statement
from instar.engine.llm.wording import wrong_language
from instar.engine.session import OutcomeStatus, Session

PROMPT = "model_distill.md.j2"
MOST = 8
"""Memories of one session that are kept."""
_RECORDED = {
    OutcomeStatus.SUCCESS: "success",
    OutcomeStatus.FAILURE: "failure",
    OutcomeStatus.UNKNOWN: "not recorded",
}


def distill(asker: Asker, session: Session) -> list[Memory]:
    """The supported statements of the model about a session; each rejection is noted with its reason.

    Raises:
        ModelError: the model could not be asked, or gave nothing of the right shape.
    """
    if not session.steps:
        return []
    shown = excerpt(session, asker.room("distill", PROMPT))
    answer = asker.ask(
        "distill",
        PROMPT,
        Distilled,
        document=session.page_id,
        several=False,
        sessions=[_told(session, shown)],
    )
    return _kept(asker, session, shown, answer)


def distill_several(asker: Asker, sessions: Sequence[Session]) -> dict[str, list[Memory]]:
    """The same about several short sessions with one request, by page id, less those that the answer passes over.

    What is said of one session is checked against the steps of that session alone.

    Raises:
        ModelError: the model could not be asked, or gave nothing of the right shape.
    """
    each = asker.room("distill", PROMPT) // len(sessions)
    shown = [excerpt(session, each) for session in sessions]
    answer = asker.ask(
        "distill",
        PROMPT,
        DistilledTogether,
        document=f"{len(sessions)} sessions from {sessions[0].page_id}",
        several=True,
        sessions=[_told(session, seen) for session, seen in zip(sessions, shown, strict=True)],
    )
    found: dict[str, list[Memory]] = {}
    for told in answer.sessions:
        if 1 <= told.session <= len(sessions) and sessions[told.session - 1].page_id not in found:
            session = sessions[told.session - 1]
            found[session.page_id] = _kept(asker, session, shown[told.session - 1], told)
    return found


def _told(session: Session, shown: Excerpt) -> dict[str, str]:
    return {"outcome": _RECORDED[session.outcome.status], "steps": shown.text}


def _kept(asker: Asker, session: Session, shown: Excerpt, answer: Distilled) -> list[Memory]:
    repeated: set[str] = set()
    return [
        *_supported(asker, session, shown, answer, repeated),
        *_reported(asker, session, shown, answer),
        *_as_its_own(asker, session, repeated),
    ]


def _supported(
    asker: Asker, session: Session, shown: Excerpt, answer: Distilled, repeated: set[str]
) -> Iterator[Memory]:
    """The memories that are borne out; the pages whose text was given back as a statement go into `repeated`."""
    known: set[str] = set()
    for statement in answer.memories:
        reason = unsupported(statement, session, shown.shown) or wrong_language(statement.statement, asker.language)
        if not reason and folded(statement.statement) in known:
            reason = "says the same again"
        if not reason and len(known) >= MOST:
            reason = f"is beyond the {MOST} that are kept"
        asker.note("distill", session.page_id, reason=reason, statement=statement.statement)
        if reason == REPEATS:
            repeated.update(session.evidence_id(ref) for ref in statement.refs)
        if not reason:
            known.add(folded(statement.statement))
            yield _memory(asker, session, statement)


def _reported(asker: Asker, session: Session, shown: Excerpt, answer: Distilled) -> Iterator[Memory]:
    """Steps that try to steer the reader: those that are recognised, and those that the model alone suspects."""
    recognised = {attempt.page for attempt in attempts_in([session])}
    reported = {session.evidence_id(item.ref) for item in answer.instructions_found if item.ref in shown.shown}
    # The words themselves are not repeated: whoever reads memories is another reader to steer.
    said = "Text of {} speaks to an agent and tries to direct it; it was not followed."
    yield from _of_text(asker, session, DIRECTING, recognised, said)
    said = "A model took text of {} for an attempt to direct an agent; nothing confirms it."
    yield from _of_text(asker, session, SUSPECTED, reported - recognised, said)


def _as_its_own(asker: Asker, session: Session, pages: set[str]) -> Iterator[Memory]:
    """Steps whose text a model gave back as if it knew it: an order in words that no list knows shows in this."""
    said = "A model gave text of {} back as its own word; it was not kept."
    yield from _of_text(asker, session, REPEATED, pages, said)


def _of_text(asker: Asker, session: Session, tag: str, pages: set[str], said: str) -> Iterator[Memory]:
    if pages:
        yield Memory(
            id=f"memory-{_digest([session.page_id, tag, *sorted(pages)])}",
            kind=MemoryKind.FEEDBACK,
            session=session.page_id,
            statement=said.format("1 step" if len(pages) == 1 else f"{len(pages)} steps"),
            evidence=sorted(pages),
            tags=[tag],
            made_by=asker.made_by("distill", PROMPT),
        )


def _memory(asker: Asker, session: Session, statement: Statement) -> Memory:
    cited = [session.evidence_id(ref) for ref in dict.fromkeys(statement.refs)]
    said = " ".join(statement.statement.split())
    return Memory(
        id=f"memory-{_digest([session.page_id, statement.kind, said, cited, statement.tool, statement.status])}",
        kind=statement.kind,
        session=session.page_id,
        statement=said,
        evidence=cited,
        tool=statement.tool,
        status=statement.status,
        tags=["model"],
        made_by=asker.made_by("distill", PROMPT),
    )


def _digest(parts: list[object]) -> str:
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()[:16]
