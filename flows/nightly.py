"""The night: everything that is new becomes evidence, is reflected on, and ends as tested drafts that wait. Then what
is past its time is forgotten, and what is kept is put in order."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime

from prefect import flow
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.client.schemas.objects import State
from prefect.runtime import deployment, flow_run
from prefect.settings import get_current_settings
from prefect.states import Cancelled

from instar.core.errors import InstarError, NightFailed, NightRunning
from instar.core.maintained import MaintainReport
from instar.core.night import Night, NightState, Outcome
from instar.core.progress import report
from instar.core.settings import Settings, load_settings
from instar.engine.errors import EngineError
from instar.flows.drafting import draft_all
from instar.flows.exclusive import only
from instar.flows.notify import Notice, notify
from instar.memstore import MemstoreError
from instar.sandbox.errors import SandboxError
from instar.skills.errors import SkillsError
from instar.tasks.night import begin, check_parts, close, look, maintain, patient, read_sources
from instar.tasks.verbs import Options, distill, reflect

FAILURES = (InstarError, MemstoreError, EngineError, SandboxError, SkillsError, OSError)
"""What ends a night with a reason; anything else is a defect, leaves it open, and it is tried again."""

NEXT = "`instar night`, or the next night, makes up for it"


def night_name() -> str:
    """How the run is called: by the day on which it was due."""
    due = flow_run.scheduled_start_time or datetime.now(UTC)
    return f"night of {due:%Y-%m-%d %H:%M}"


@flow(name="nightly", flow_run_name=night_name, persist_result=False)
async def nightly(at: datetime | None = None, options: Options | None = None) -> Night | State[Night]:
    """Read the sources, reflect on what changed since the last successful night, build, and ask for reviews.

    There is one night at a time. One that was cut off is continued. Every stage leaves what is there already as it
    is, so that whatever is repeated changes nothing. `at` is taken for the present moment.
    """
    flags: Options = options or {}
    settings = load_settings(os.environ, flags)
    with only(settings.home / "night.lock") as first:
        if not first and deployment.id:
            return Cancelled(message="Another night of this home runs; this one is not needed")
        if not first:
            raise NightRunning("Another night of this home runs", "`instar status` shows it")
        try:
            night = patient(begin, settings.retry_seconds)(str(flow_run.id or ""), at or datetime.now(UTC), flags)
        except NightFailed as error:
            await _tell(settings, "a night was given up", str(error), str(flow_run.id or ""))
            raise
        try:
            result = await _maintained(await _spend(night, settings, flags), at or datetime.now(UTC), flags)
        except (NightRunning, ConnectionError):  # taken over by another run, or cut off from the server: it goes on
            raise
        except FAILURES as error:
            failed = night.model_copy(update={"state": NightState.FAILED, "reason": one_line(error)})
            await _tell(settings, f"night {night.number} failed", failed.reason, night.run)
            with suppress(MemstoreError):  # without a store the night stays open, and is continued
                _finish(failed, at, settings, flags)
            raise NightFailed(f"Night {night.number} failed: {one_line(error)}", NEXT) from error
        return _finish(result, at, settings, flags)


async def _spend(night: Night, settings: Settings, options: Options) -> Night:
    """Everything between opening a night and closing it."""
    pauses = settings.retry_seconds
    progress = await create_progress_artifact(0.0, key="night-progress", description=f"Night {night.number}")  # type: ignore[misc]
    report("night", note="reading the sources")
    patient(check_parts, pauses)(options)
    night = look(night, patient(read_sources, pauses)(options), options)
    if not night.sessions:
        await update_progress_artifact(progress, 100.0)  # type: ignore[misc]
        return night.model_copy(update={"state": NightState.QUIET})
    await update_progress_artifact(progress, 20.0)  # type: ignore[misc]
    patient(distill, pauses)(options)
    await update_progress_artifact(progress, 40.0)  # type: ignore[misc]
    reflection = patient(reflect, pauses)(options)
    await update_progress_artifact(progress, 60.0)  # type: ignore[misc]
    drafted = draft_all(reflection, settings, options, pauses)
    await update_progress_artifact(progress, 100.0)  # type: ignore[misc]
    made = zip(drafted.drafts, drafted.requirements, strict=True)
    return night.model_copy(
        update={
            "state": NightState.DONE,
            "reflection": reflection.id,
            "proposals": len(reflection.proposals),
            "drafts": [Outcome.of(built, prd.id) for built, prd in made],
            "retirements": drafted.retirements,
            "not_built": drafted.not_built,
            "asked": drafted.asked,
        }
    )


async def _maintained(night: Night, at: datetime, options: Options) -> Night:
    """Forget and put in order. No draft depends on it, so that its failure does not fail the night."""
    report("night", note="forgetting what is past its time")
    state = maintain(at, options, return_state=True)
    found = await state.aresult(raise_on_failure=False)
    done = found if isinstance(found, MaintainReport) else MaintainReport(failed=one_line(found))
    return night.model_copy(update={"maintenance": done})


async def _tell(settings: Settings, what: str, reason: str, run: str) -> None:
    link = f"{get_current_settings().ui_url or ''}/runs/flow-run/{run}"
    await notify(settings, Notice(f"Instar: {what}", reason, link))


def _finish(night: Night, at: datetime | None, settings: Settings, options: Options) -> Night:
    server = get_current_settings().ui_url or ""
    return patient(close, settings.retry_seconds)(night, at or datetime.now(UTC), server, options)


def one_line(error: Exception) -> str:
    """An error as one clear line."""
    return " ".join((str(error) or type(error).__name__).split())[:1_000]
