"""What the worker does until it is ended: register what it serves, run what is due, and look after what waits."""

from __future__ import annotations

import asyncio
import os
import threading
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast
from uuid import UUID

from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitUpdate
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterName,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import State, StateType
from prefect.flows import Flow
from prefect.runner import Runner
from prefect.schedules import Cron as PrefectCron
from prefect.states import Crashed
from prefect.types.entrypoint import EntrypointType

from instar.core.settings import Settings, load_settings
from instar.flows.automations import on_failure, put_automation
from instar.flows.delivery import Debounce
from instar.flows.deployments import DEPLOYMENTS, Deployment
from instar.flows.pulse import Pulse
from instar.flows.rest import AUTH, Rest
from instar.flows.worker import WorkerRecord, write_worker_record

POLL_SECONDS = 0.5
ALIVE = (StateType.RUNNING, StateType.PENDING, StateType.CANCELLING)


@dataclass(frozen=True, slots=True)
class Bench:
    """Where the worker works: the address of its server, the token that proves it, and what it was started with."""

    address: str
    token: str
    fingerprint: str


def run(bench: Bench) -> None:
    """Work until a signal ends it."""
    asyncio.run(_work(bench, load_settings(os.environ, {})))


async def _work(bench: Bench, settings: Settings) -> None:
    runner = Runner(name="instar", pause_on_shutdown=False, query_seconds=POLL_SECONDS)
    async with get_client() as client:
        await close_abandoned(client)
        ids = {each.name: await _serve(runner, client, each, settings) for each in DEPLOYMENTS}
        await put_automation(client, on_failure(ids["reflect-on-failure"]))
    record = WorkerRecord(pid=os.getpid(), address=bench.address, settings=bench.fingerprint, served=list(ids))
    write_worker_record(settings.home, record)
    pulse = Pulse(settings, Rest(bench.address, os.environ.get(AUTH, "")), Debounce(settings.debounce_seconds))
    stop = threading.Event()
    async with asyncio.TaskGroup() as together:
        # Where one of the two fails, so does the worker: half of it would look like all of it.
        together.create_task(asyncio.to_thread(pulse.run, stop))
        try:
            await runner.start()
        finally:
            stop.set()


async def close_abandoned(client: PrefectClient) -> int:
    """Say of every run that a worker left behind that it crashed; returns how many.

    For a worker at its start: there is only one for each home, and what its predecessor started was ended. Without
    this such a run would be shown as running for ever, and keep its place in a concurrency limit.
    """
    found = await client.read_flow_runs(
        deployment_filter=DeploymentFilter(name=DeploymentFilterName(any_=[each.name for each in DEPLOYMENTS])),
        flow_run_filter=FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=list(ALIVE)))),
    )
    for flow_run in found:
        state: State[Any] = Crashed(message="The worker that ran this ended before it did.")
        await client.set_flow_run_state(flow_run.id, state, force=True)
    return len(found)


def flow_of(deployment: Deployment) -> Flow[..., Any]:
    """The flow that a deployment names.

    Raises:
        ImportError: its module cannot be imported.
        AttributeError: there is no such flow in it.
    """
    module, _, name = deployment.flow.partition(":")
    return cast("Flow[..., Any]", getattr(import_module(module), name))


async def _serve(runner: Runner, client: PrefectClient, deployment: Deployment, settings: Settings) -> UUID:
    cron = deployment.schedule(settings)
    built = await flow_of(deployment).ato_deployment(
        name=deployment.name,
        schedule=None if cron is None else PrefectCron(cron.line, timezone=cron.zone),
        concurrency_limit=deployment.at_once,
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    deployment_id = await runner.aadd_deployment(built)
    if cron is None:
        for left in (await client.read_deployment(deployment_id)).schedules:
            await client.delete_deployment_schedule(deployment_id, left.id)
    if deployment.at_once is not None:
        # Nothing runs yet. A place that a killed run, or a server that was restarted, still holds is given back.
        limit = GlobalConcurrencyLimitUpdate(active_slots=0)
        await client.update_global_concurrency_limit(f"deployment:{deployment_id}", limit)
    return deployment_id
