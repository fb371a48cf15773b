"""The engine that needs no model and no network: it mines, compiles and abstains, the same way every time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from instar.engine.compiler.distill import distill
from instar.engine.compiler.errors import Unspecifiable
from instar.engine.compiler.identity import identified
from instar.engine.compiler.phrases import Language
from instar.engine.compiler.reflect import ReflectSettings, reflect
from instar.engine.compiler.revise import answered, changed, wishes
from instar.engine.compiler.specify import specify
from instar.engine.compiler.write import write
from instar.engine.documents import Catalogue, Draft, Memory, Prd, Proposal, Reflection, Window
from instar.engine.session import Session
from instar.sandbox.report import GateReport


class Compiler:
    """Implements `Engine` deterministically.

    `proposals` caps what one reflection proposes; `language` is that of the requirements.
    """

    def __init__(
        self,
        *,
        proposals: int | None = None,
        language: Language | None = None,
        settings: ReflectSettings | None = None,
    ) -> None:
        chosen = settings or ReflectSettings()
        if language is not None:
            chosen = replace(chosen, language=language)
        if proposals is not None:
            chosen = replace(chosen, proposals=replace(chosen.proposals, limit=proposals))
        self._settings = chosen

    def distill(self, session: Session) -> list[Memory]:
        """Outcome, procedure, failures, recoveries and feedback of one session, each with its evidence."""
        return distill(session)

    def reflect(self, window: Window, catalogue: Catalogue) -> Reflection:
        """Patterns, failure clusters with lessons, commands, and at most a few proposals."""
        return reflect(window, catalogue, self._settings)

    def specify(self, proposal: Proposal, window: Window) -> Prd:
        """The requirement of a proposal, with pseudonymised cases and the hold-outs.

        Raises:
            Unspecifiable: the proposal has no plan, or nothing recorded can be replayed.
        """
        return specify(proposal, window, self._settings.mining, self._settings.language)

    def write(self, prd: Prd, catalogue: Catalogue) -> Draft:
        """The package of a requirement; the same requirement gives the same bytes.

        Raises:
            Unspecifiable: the requirement carries no plan.
            PlanError: its plan is malformed.
        """
        return write(prd, catalogue)

    def revise(self, proposal: Proposal, window: Window, comments: Sequence[str]) -> Prd | None:
        """The requirement as reviewers asked for it; None where no comment has a form that this engine understands.

        Raises:
            Unspecifiable: nothing that can be replayed would be left.
        """
        if proposal.plan is None:
            return None
        wanted = wishes(comments, proposal.plan)
        if not wanted.understood:
            return None
        other = changed(proposal, wanted)
        if other is None:
            raise Unspecifiable(proposal.skill, f"without {', '.join(wanted.leave_out)} nothing would be left to do")
        return identified(answered(self.specify(other, window), wanted).model_copy(update={"id": ""}), "prd")

    def repair(self, draft: Draft, report: GateReport) -> None:
        """Always None: what the compiler writes follows from the evidence, and a gate's complaint is no evidence."""
