"""The model engine, and the one that compiles what compiles and asks a model only for the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from instar.engine.compiler.compiler import Compiler
from instar.engine.compiler.identity import identified
from instar.engine.compiler.lessons import task_of
from instar.engine.documents import (
    Abstention,
    Catalogue,
    Draft,
    Memory,
    MemoryKind,
    Prd,
    Proposal,
    ProposalAction,
    Reflection,
    Window,
)
from instar.engine.errors import EngineError
from instar.engine.llm.asker import Asker
from instar.engine.llm.distill import distill
from instar.engine.llm.grants import Grants
from instar.engine.llm.reflect import suggest, warnings
from instar.engine.llm.specify import specify
from instar.engine.llm.standins import read_as_built_in
from instar.engine.llm.together import distil_in_requests
from instar.engine.llm.write import repair, write
from instar.engine.session import Session
from instar.sandbox.report import GateReport

MAX_ABSTENTIONS = 20
ASKED_AT_ONCE = 100
"""Sessions that are held before the model is asked about them."""


class ModelEngine:
    """Implements `Engine` with a model for each role. What is counted, not judged, is left to the compiler.

    `limit` caps what one reflection proposes.
    """

    def __init__(self, asker: Asker, *, limit: int = 5, grants: Grants | None = None) -> None:
        self._asker, self._limit, self._grants = asker, limit, grants or Grants()
        self._counting = Compiler(proposals=limit, language=asker.language)

    def distill(self, session: Session) -> list[Memory]:
        """What the model says the session taught and its evidence bears out, and the outcome as recorded.

        Raises:
            ModelError: the model could not be asked, or gave nothing of the right shape.
        """
        return self._with_outcome(session, distill(self._asker, session))

    def distill_together(self, sessions: Iterable[Session]) -> Iterator[tuple[Session, list[Memory] | EngineError]]:
        """The same about each session or why not, short ones with one request; in another order than they came."""
        for session, told in distil_in_requests(self._asker, sessions):
            yield session, told if isinstance(told, EngineError) else self._with_outcome(session, told)

    def _with_outcome(self, session: Session, told: Sequence[Memory]) -> list[Memory]:
        recorded = [memory for memory in self._counting.distill(session) if memory.kind is MemoryKind.OUTCOME]
        return [*recorded, *(memory for memory in told if memory.kind is not MemoryKind.OUTCOME)]

    def reflect(self, window: Window, catalogue: Catalogue) -> Reflection:
        """Proposals of the model, with the failures, gaps and uses that are counted without one."""
        counted = self._counting.reflect(window, catalogue)
        kept = [p for p in counted.proposals if p.action is ProposalAction.RETIRE]
        return _with_suggestions(
            self._asker,
            counted.model_copy(update={"patterns": [], "proposals": kept, "abstentions": []}),
            read_as_built_in(window, self._grants.same_as),
            catalogue,
            self._limit,
        )

    def specify(self, proposal: Proposal, window: Window) -> Prd:
        """The requirement: compiled where the proposal has a plan, which is proven; otherwise in the model's words.

        Raises:
            EngineError: it cannot be written.
        """
        if proposal.plan is not None:
            return _warned(self._counting.specify(proposal, window), window)
        return self._specified(proposal, window)

    def revise(self, proposal: Proposal, window: Window, comments: Sequence[str]) -> Prd | None:
        """The requirement as reviewers asked for it; their comments are the only text here that is to be followed.

        Raises:
            EngineError: it cannot be written.
        """
        if proposal.plan is not None:
            return self._counting.revise(proposal, window, comments)
        said = " ".join(f"A reviewer asks: {' '.join(comment.split())[:400]}" for comment in comments[-5:])
        return self._specified(proposal.model_copy(update={"summary": f"{proposal.summary} {said}"}), window)

    def write(self, prd: Prd, catalogue: Catalogue) -> Draft:
        """The model's program; where there is a plan, the compiler's solution is its example.

        Raises:
            ModelError: no program came back.
        """
        return write(self._asker, prd, catalogue)

    def repair(self, draft: Draft, report: GateReport) -> Draft | None:
        """A changed program, or None when the model has nothing better."""
        return repair(self._asker, draft, report) if draft.made_by else None

    def _specified(self, proposal: Proposal, window: Window) -> Prd:
        return specify(self._asker, proposal, read_as_built_in(window, self._grants.same_as), self._grants)


class Hybrid:
    """Implements `Engine`: compiles what compiles, and asks the model for the rest."""

    def __init__(self, asker: Asker, *, limit: int = 5, grants: Grants | None = None) -> None:
        self._asker, self._limit, self._grants = asker, limit, grants or Grants()
        self._compiler = Compiler(proposals=limit, language=asker.language)
        self._model = ModelEngine(asker, limit=limit, grants=self._grants)

    def distill(self, session: Session) -> list[Memory]:
        """What the calls say; where the compiler learned no more than how it ended, what the model says of it.

        Raises:
            ModelError: the model could not be asked.
        """
        compiled = self._compiler.distill(session)
        return compiled if _says_enough(compiled) else self._model.distill(session)

    def distill_together(self, sessions: Iterable[Session]) -> Iterator[tuple[Session, list[Memory] | EngineError]]:
        """The same about each session or why not; what the model is asked about is put together where it is short."""
        asked: list[Session] = []
        for session in sessions:
            compiled = self._compiler.distill(session)
            if _says_enough(compiled):
                yield session, compiled
            else:
                asked.append(session)
            if len(asked) == ASKED_AT_ONCE:
                yield from self._model.distill_together(asked)
                asked = []
        yield from self._model.distill_together(asked)

    def reflect(self, window: Window, catalogue: Catalogue) -> Reflection:
        """The compiler's reflection, and proposals of the model for the tasks that none of its patterns serves."""
        compiled = self._compiler.reflect(window, catalogue)
        served = {page.rsplit(".", 1)[0] for pattern in compiled.patterns for page in pattern.evidence}
        tasks = {task_of(session) for session in window.sessions if session.page_id in served}
        rest = replace(window, sessions=[session for session in window.sessions if task_of(session) not in tasks])
        left = self._limit - sum(p.action is not ProposalAction.RETIRE for p in compiled.proposals)
        if left <= 0 or not rest.sessions:
            return compiled
        return _with_suggestions(self._asker, compiled, read_as_built_in(rest, self._grants.same_as), catalogue, left)

    def specify(self, proposal: Proposal, window: Window) -> Prd:
        """Compiled where there is a plan.

        Raises:
            EngineError: it cannot be written.
        """
        return self._model.specify(proposal, window)

    def revise(self, proposal: Proposal, window: Window, comments: Sequence[str]) -> Prd | None:
        """The requirement as reviewers asked for it.

        Raises:
            EngineError: it cannot be written.
        """
        return self._model.revise(proposal, window, comments)

    def write(self, prd: Prd, catalogue: Catalogue) -> Draft:
        """Compiled where there is a plan, otherwise the model's program.

        Raises:
            EngineError: it cannot be written.
        """
        return self._compiler.write(prd, catalogue) if prd.plan else self._model.write(prd, catalogue)

    def repair(self, draft: Draft, report: GateReport) -> Draft | None:
        """What a model wrote is mended by the model; what was compiled follows from the evidence."""
        return self._model.repair(draft, report)


def _says_enough(compiled: Sequence[Memory]) -> bool:
    return not compiled or any(memory.kind is not MemoryKind.OUTCOME for memory in compiled)


def _with_suggestions(
    asker: Asker, reflection: Reflection, window: Window, catalogue: Catalogue, limit: int
) -> Reflection:
    found = suggest(asker, window, catalogue, limit=limit)
    taken = {proposal.skill for proposal in reflection.proposals}
    fresh = [proposal for proposal in found.proposals if proposal.skill not in taken]
    doubled = [
        Abstention(what=proposal.title, reason=f"{proposal.skill} is proposed already")
        for proposal in found.proposals
        if proposal.skill in taken
    ]
    cited = [page for proposal in fresh for page in proposal.evidence]
    update = {
        "proposals": [*reflection.proposals, *fresh],
        "abstentions": [*reflection.abstentions, *doubled, *found.abstentions][:MAX_ABSTENTIONS],
        "evidence": list(dict.fromkeys([*reflection.evidence, *cited])),
        "made_by": asker.made_by("reflect", "model_propose.md.j2"),
        "id": "",
    }
    return identified(reflection.model_copy(update=update), "reflection")


def _warned(prd: Prd, window: Window) -> Prd:
    """The requirement with what a reviewer must know about text that tries to direct an agent."""
    cited = {page.rsplit(".", 1)[0] for page in prd.evidence}
    said = warnings([session for session in window.sessions if session.page_id in cited], window.memories)
    if not said:
        return prd
    return identified(prd.model_copy(update={"id": "", "risks": [*prd.risks, *said]}), "prd")
