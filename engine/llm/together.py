"""Several short sessions in one request: the instructions are paid for once, and sessions of little note cost little.

A session that failed, or in which the user refused something, has most to teach and is read alone; so is one that
would take more than its share of a request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from instar.engine.documents import Memory
from instar.engine.llm.asker import Asker
from instar.engine.llm.distill import PROMPT, distill, distill_several
from instar.engine.llm.errors import ModelError, Unusable
from instar.engine.llm.excerpts import CUTS, line_of
from instar.engine.session import OutcomeStatus, ResultStatus, Session, ToolResult
from instar.memstore.tokens import count_tokens

ANSWER = 450
"""Tokens of an answer that are set aside for one session: three memories, with room to spare."""


def distil_in_requests(
    asker: Asker, sessions: Iterable[Session]
) -> Iterator[tuple[Session, list[Memory] | ModelError]]:
    """What the model says of each session, with as few requests as they fit into; in another order than they came."""
    most = min(asker.settings.together, asker.model("distill").output_tokens // ANSWER)
    if asker.places.handoff is not None:
        most = 1  # who answers by hand finds the same prompts again when sessions have come in meanwhile
    waiting: list[Session] = []
    used, room = 0, asker.room("distill", PROMPT)
    for session in sessions:
        size = _size(session, room // 3)
        if most < 2 or not session.steps or size > room // 3 or _telling(session):
            yield session, _alone(asker, session)
            continue
        if waiting and (len(waiting) == most or used + size > room):
            yield from _all(asker, waiting)
            waiting, used = [], 0
        waiting.append(session)
        used += size
    yield from _all(asker, waiting)


def _all(asker: Asker, sessions: list[Session]) -> Iterator[tuple[Session, list[Memory] | ModelError]]:
    found: dict[str, list[Memory]] = {}
    if len(sessions) > 1:
        try:
            found = distill_several(asker, sessions)
        except Unusable:
            pass  # noted already; each gets its own chance
        except ModelError as error:
            yield from ((session, error) for session in sessions)
            return
    for session in sessions:
        yield session, found[session.page_id] if session.page_id in found else _alone(asker, session)


def _alone(asker: Asker, session: Session) -> list[Memory] | ModelError:
    try:
        return distill(asker, session)
    except ModelError as error:
        return error


def _telling(session: Session) -> bool:
    refused = any(isinstance(step, ToolResult) and step.status is ResultStatus.REFUSED for step in session.steps)
    return refused or session.outcome.status is OutcomeStatus.FAILURE


def _size(session: Session, enough: int) -> int:
    """Tokens of the session as it is shown; where it is far more than enough nobody counts."""
    text = "\n".join(line_of(step, CUTS[0]) for step in session.steps)
    return enough + 1 if len(text) > 12 * enough else count_tokens(text) + 1
