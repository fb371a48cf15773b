"""From a reflection to drafts that wait: what the nightly flow and the main job have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prefect import get_run_logger
from pydantic import BaseModel, ConfigDict

from instar.core.build import Built
from instar.core.errors import NotEvaluated
from instar.core.runtime import runtime
from instar.core.settings import Settings
from instar.engine.documents import Prd, ProposalAction, Reflection
from instar.flows.errors import PrefectRefused
from instar.flows.review_runs import open_review
from instar.tasks.night import ask_retirement, patient
from instar.tasks.verbs import Options, build, specify


class Drafted(BaseModel):
    """What became of the proposals of a reflection."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    requirements: list[Prd] = []
    drafts: list[Built] = []
    """In the order of `requirements`."""
    retirements: list[str] = []
    """Reviews that ask whether a skill should go."""
    not_built: dict[str, str] = {}
    """Proposals that could not be evaluated, with the reason; none of them was rejected."""
    asked: dict[str, str] = {}
    """The page of the run that asks about each review, where a server shows one."""


def draft_all(reflection: Reflection, settings: Settings, options: Options, pauses: Sequence[float] = ()) -> Drafted:
    """A tested draft for each proposal, a question for each skill that may go, a run for each review that waits.

    `pauses` are the seconds before each new attempt, where a part is unavailable.
    """
    requirements: list[Prd] = []
    drafts: list[Built] = []
    retirements: list[str] = []
    not_built: dict[str, str] = {}
    for proposal in reflection.proposals:
        if proposal.action is ProposalAction.RETIRE:
            if review := ask_retirement(proposal.id, proposal.skill, options):
                retirements.append(review)
            continue
        try:
            prd = patient(specify, pauses)(proposal.id, proposal.skill, options)
            drafts.append(patient(build, pauses)(prd.id, prd.skill, options))
            requirements.append(prd)
        except NotEvaluated as error:
            not_built[proposal.skill] = str(error)
    waiting = [built.review for built in drafts if built.review and not built.decided]
    return Drafted(
        requirements=requirements,
        drafts=drafts,
        retirements=retirements,
        not_built=not_built,
        asked=_ask((*waiting, *retirements), settings),
    )


def _ask(reviews: Iterable[str], settings: Settings) -> dict[str, str]:
    """A suspended run for each review. One that cannot have it waits all the same, and gets it later."""
    asked: dict[str, str] = {}
    with runtime(settings) as rt:
        for review in reviews:
            try:
                page = open_review(rt, review)
            except PrefectRefused as error:
                get_run_logger().warning("%s", error)
            else:
                asked |= {review: page} if page else {}
    return asked
