"""The main job as a flow: sessions in, tested drafts that wait for a person out."""

from __future__ import annotations

import os

from prefect import flow
from prefect.runtime import flow_run
from pydantic import BaseModel, ConfigDict

from instar.core.build import Built
from instar.core.ingest import IngestReport
from instar.core.learn import DistillReport
from instar.core.settings import load_settings
from instar.engine.documents import Prd, Reflection
from instar.flows.drafting import draft_all
from instar.prompts import render
from instar.tasks.artifacts import post_artifact
from instar.tasks.verbs import Options, distill, ingest, reflect


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
    retirements: list[str] = []
    """Reviews that ask whether a skill should go."""
    asked: dict[str, str] = {}
    """Where each review that waits can be answered in the UI; empty for one that no worker can show yet."""
    not_built: dict[str, str]
    """Proposals that could not be evaluated, with the reason; none of them was rejected."""


@flow(name="evolve", flow_run_name="evolve {scope}", persist_result=False)
async def evolve(paths: list[str], scope: str, options: Options) -> Evolved:
    """Ingest, distil, reflect; specify and build every proposal; leave a review for each draft that passed."""
    ingested = ingest(paths, options)
    distilled = distill(options)
    reflection = reflect(options)
    drafted = draft_all(reflection, load_settings(os.environ, options), options)
    report = render("evolved.md.j2", drafts=drafted.drafts, asked=drafted.asked, not_built=drafted.not_built)
    await post_artifact(f"evolved-{scope}", report, "What was built, and what waits for review")
    return Evolved(
        run_id=str(flow_run.id),
        ingest=ingested,
        distill=distilled,
        reflection=reflection,
        requirements=drafted.requirements,
        drafts=drafted.drafts,
        retirements=drafted.retirements,
        not_built=drafted.not_built,
        asked=drafted.asked,
    )
