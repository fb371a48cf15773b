"""The seam between the harness and whatever turns experience into drafts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, runtime_checkable

from instar.engine.documents import Catalogue, Draft, Memory, Prd, Proposal, Reflection, Window
from instar.engine.errors import EngineError
from instar.engine.session import Session
from instar.sandbox.report import GateReport


class Engine(Protocol):
    """Turns experience into drafts. Every returned document cites the pages it rests on."""

    def distill(self, session: Session) -> list[Memory]:
        """Say what one session taught, each statement with its evidence."""
        ...

    def reflect(self, window: Window, catalogue: Catalogue) -> Reflection:
        """Find what recurs in a window and propose changes; abstain when the evidence is thin."""
        ...

    def specify(self, proposal: Proposal, window: Window) -> Prd:
        """Write the requirement from which a person can decide and an engine can write."""
        ...

    def write(self, prd: Prd, catalogue: Catalogue) -> Draft:
        """Write a candidate package with its folds for hold-out replay."""
        ...

    def repair(self, draft: Draft, report: GateReport) -> Draft | None:
        """Answer a failed gate with a changed draft, or None when there is nothing to change."""
        ...


@runtime_checkable
class DistilsTogether(Protocol):
    """An engine for which many sessions at once cost less than each alone."""

    def distill_together(self, sessions: Iterable[Session]) -> Iterator[tuple[Session, list[Memory] | EngineError]]:
        """Every session with what it taught or why nothing can be said; in whatever order, as soon as it is known."""
        ...


def distilled(engine: Engine, sessions: Iterable[Session]) -> Iterator[tuple[Session, list[Memory] | EngineError]]:
    """Every session with what it taught, or with the error of the engine; together where the engine can."""
    if isinstance(engine, DistilsTogether):
        yield from engine.distill_together(sessions)
        return
    for session in sessions:
        try:
            yield session, engine.distill(session)
        except EngineError as error:
            yield session, error
