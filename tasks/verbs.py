"""One Prefect task per verb. A task takes ids and plain values, opens its own runtime, and returns a value.

`Options` are the flags a user gave; the rest of the settings is read where the task runs, so that nothing secret
becomes a parameter that Prefect stores.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prefect import task
from prefect.runtime import flow_run

from instar.core import build as building
from instar.core import ingest as ingesting
from instar.core import learn
from instar.core.build import Built
from instar.core.drain import drain
from instar.core.ingest import IngestReport
from instar.core.learn import DistillReport
from instar.core.runtime import Runtime, runtime
from instar.core.settings import load_settings
from instar.engine.documents import Prd, Reflection
from instar.prompts import render
from instar.tasks.artifacts import publish_artifact

Options = dict[str, str | int | bool]


@contextmanager
def opened(options: Options) -> Iterator[Runtime]:
    """The runtime that a task works with."""
    run = str(flow_run.id or "")  # the caps of a run count all of its tasks together
    flags: Options = {**options, "run": run} if run else options
    with runtime(load_settings(os.environ, flags)) as rt:
        yield rt


@task(task_run_name="ingest", persist_result=False)
def ingest(paths: list[str], options: Options) -> IngestReport:
    """Read session logs into evidence pages, with what running agents left in the spool."""
    with opened(options) as rt:
        drain(rt)
        return ingesting.ingest(rt, [Path(path) for path in paths])


@task(task_run_name="distill", persist_result=False)
def distill(options: Options) -> DistillReport:
    """Write the memories of sessions that have none yet."""
    with opened(options) as rt:
        return learn.distill(rt)


@task(task_run_name="reflect", persist_result=False)
def reflect(options: Options) -> Reflection:
    """Find what recurs, and propose."""
    with opened(options) as rt:
        reflection = learn.reflect(rt)
    publish_artifact("reflection", render("reflection.md.j2", reflection=reflection), "What recurs, and what to do")
    return reflection


@task(task_run_name="specify {skill}", persist_result=False)
def specify(proposal_id: str, skill: str, options: Options) -> Prd:
    """Write the requirement of a proposal; `skill` names the run."""
    with opened(options) as rt:
        prd = learn.specify(rt, proposal_id)
    publish_artifact(f"prd-{skill}", render("prd.md.j2", prd=prd), f"Requirement: {skill}")
    return prd


@task(task_run_name="build {skill}", persist_result=False)
def build(prd_id: str, skill: str, options: Options) -> Built:
    """Write a draft, judge it in the sandbox, open its review; `skill` names the run."""
    with opened(options) as rt:
        built = building.build(rt, prd_id)
    publish_artifact(f"gates-{skill}", render("gate_report.md.j2", report=built.report), f"Gates: {skill}")
    return built
