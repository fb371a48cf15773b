"""The main job as a flow: sessions in, tested drafts that wait for a person out."""

from __future__ import annotations

from prefect import flow
from prefect.runtime import flow_run
from pydantic import BaseModel, ConfigDict

from instar.core.build import Built
from instar.core.errors import NotEvaluated
from instar.core.ingest import IngestReport
from instar.core.learn import DistillReport
from instar.engine.documents import Prd, Reflection
from instar.tasks.verbs import Options, build, distill, ingest, reflect, specify


class Evolved(BaseModel):
    """What one run of the chain did."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str
    ingest: IngestReport
    distill: DistillReport
    reflection: Reflection
    requirements: list[Prd]
    drafts: list[Built]
    """In the order of `requirements`."""
    not_built: dict[str, str]
    """Proposals that could not be evaluated, with the reason; none of them was rejected."""


@flow(name="evolve", flow_run_name="evolve {scope}", persist_result=False)
async def evolve(paths: list[str], scope: str, options: Options) -> Evolved:
    """Ingest, distil, reflect; specify and build every proposal; leave a review for each draft that passed."""
    ingested = ingest(paths, options)
    distilled = distill(options)
    reflection = reflect(options)
    requirements: list[Prd] = []
    drafts: list[Built] = []
    not_built: dict[str, str] = {}
    for proposal in reflection.proposals:
        if proposal.plan is None:
            continue  # to retire a skill asks a person; there is nothing to specify or build
        try:
            prd = specify(proposal.id, proposal.skill, options)
            drafts.append(build(prd.id, prd.skill, options))
            requirements.append(prd)
        except NotEvaluated as error:
            not_built[proposal.skill] = str(error)
    return Evolved(
        run_id=str(flow_run.id),
        ingest=ingested,
        distill=distilled,
        reflection=reflection,
        requirements=requirements,
        drafts=drafts,
        not_built=not_built,
    )
