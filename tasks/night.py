"""The tasks of a night, beside the verbs that it shares with every other flow.

What a night needs may be unavailable for a while: the store, the sandbox, an engine. Such a task is tried again with
growing pauses; anything else fails at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ParamSpec, TypeVar

from prefect import Task, task
from prefect.client.schemas.objects import State, TaskRun

from instar.core import events_reflection as answering
from instar.core import night as nights
from instar.core.drain import drain
from instar.core.errors import NotFound, PartMissing
from instar.core.events_reflection import Answered
from instar.core.ingest import IngestReport
from instar.core.maintained import MaintainReport
from instar.core.night import Night
from instar.core.opening import open_retirement
from instar.core.sources import ingest_sources
from instar.memstore import StoreUnavailable
from instar.prompts import render
from instar.sandbox.errors import SandboxError
from instar.skills.errors import NotPublished
from instar.tasks.artifacts import artifact_key, publish_artifact
from instar.tasks.verbs import Options, opened

P = ParamSpec("P")
R = TypeVar("R")

INDEXING = 180.0
"""Seconds for which a night brings the index up to date, after an import of very many sessions."""
UNAVAILABLE = (PartMissing, SandboxError, StoreUnavailable)
"""What may be over in a minute."""


def unavailable(tried: Task[..., Any], run: TaskRun, state: State[Any]) -> bool:
    """Whether a failure is worth another attempt."""
    return isinstance(state.data, UNAVAILABLE) or isinstance(getattr(state.data, "result", None), UNAVAILABLE)


def patient(tried: Task[P, R], pauses: Sequence[float]) -> Task[P, R]:
    """The task, tried again after each of these pauses (in seconds) while a part is unavailable."""
    return tried.with_options(retries=len(pauses), retry_delay_seconds=list(pauses), retry_condition_fn=unavailable)


@task(task_run_name="begin", persist_result=False)
def begin(run: str, at: datetime, options: Options) -> Night:
    """Continue the night that was cut off, or begin the next one."""
    with opened(options) as rt:
        return nights.open_night(rt, run=run, now=at)


@task(task_run_name="check the parts", persist_result=False)
def check_parts(options: Options) -> None:
    """Find a missing sandbox or engine now, and not in an hour."""
    with opened(options) as rt:
        rt.sandbox.probe()
        _ = rt.engine


@task(task_run_name="read the sources", persist_result=False)
def read_sources(options: Options) -> IngestReport:
    """Read what is new in the configured sources, and what running agents left in the spool."""
    with opened(options) as rt:
        drain(rt)
        return ingest_sources(rt)


@task(task_run_name="look what is new", persist_result=False)
def look(night: Night, ingested: IngestReport, options: Options) -> Night:
    """Determine the window of a night."""
    with opened(options) as rt:
        changed, through = nights.window_of(rt, night)
        update = {"through": through, "sessions": len(changed), "ingest": ingested}
        return nights.keep_night(rt, night.model_copy(update=update))


@task(task_run_name="ask whether {skill} should go", persist_result=False)
def ask_retirement(proposal_id: str, skill: str, options: Options) -> str:
    """Open the review of a proposal to retire; returns it, or nothing where there is nothing left to decide."""
    with opened(options) as rt:
        try:
            review, decided = open_retirement(rt, proposal_id)
        except (NotFound, NotPublished):
            return ""
        return "" if decided else review


@task(task_run_name="maintain", persist_result=False)
def maintain(at: datetime, options: Options) -> MaintainReport:
    """Forget what is past its time, and put in order what is kept."""
    # Imported late: the index is heavy, and a worker imports every flow before it can start any.
    from instar.core.maintain import maintain as maintained  # noqa: PLC0415

    with opened(options) as rt:
        return maintained(rt, now=at, seconds=INDEXING)


@task(task_run_name="close", persist_result=False)
def close(night: Night, at: datetime, server: str, options: Options) -> Night:
    """Write the report of a night and settle its window."""
    closed = night.model_copy(update={"closed_at": at})
    text = render("night.md.j2", night=closed, links=links_of(closed, server))
    with opened(options) as rt:
        nights.close_night(rt, night, now=at, text=text)
    publish_artifact("night", text, f"Night {closed.number}: {closed.state.value}")
    return closed


def links_of(night: Night, server: str) -> dict[str, str]:
    """Where the UI shows what a night made, by its page."""
    if not server:
        return {}
    keys = {night.reflection: "reflection"} if night.reflection else {}
    for draft in night.drafts:
        keys |= {draft.prd: f"prd-{draft.skill}", draft.gates: f"gates-{draft.skill}"}
    return {page: f"{server}/artifacts/key/{artifact_key(key)}" for page, key in keys.items()} | night.asked


@task(task_run_name="reflect on {group}", persist_result=False)
def reflect_on_events(group: str, options: Options) -> Answered:
    """Reflect on the sessions of the events that wait, and answer them."""
    with opened(options) as rt:
        answered = answering.reflect_on_events(rt, group)
    if answered.reflection is not None:
        text = render("reflection.md.j2", reflection=answered.reflection)
        said = f"{answered.events} events of {answered.sessions} sessions"
        publish_artifact(f"failures-{group}", text, f"What {said} have in common")
    return answered
