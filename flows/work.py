"""What the worker does until it is ended: register what it serves, run what is due, and look after what waits."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from prefect.client.orchestration import PrefectClient, get_client
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
from instar.flows.deployments import DEPLOYMENTS, Deployment
from instar.flows.worker import WorkerRecord, write_worker_record

BEAT_SECONDS = 5.0
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
    runner = Runner(name="instar", pause_on_shutdown=False)
    async with get_client() as client:
        await close_abandoned(client)
        for each in DEPLOYMENTS:
            await _serve(runner, client, each, settings)
    record = WorkerRecord(
        pid=os.getpid(),
        address=bench.address,
        settings=bench.fingerprint,
        served=[each.name for each in DEPLOYMENTS],
    )
    write_worker_record(settings.home, record)
    beating = asyncio.create_task(_beat(settings.home))
    try:
        await runner.start()
    finally:
        beating.cancel()


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


async def _serve(runner: Runner, client: PrefectClient, deployment: Deployment, settings: Settings) -> None:
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


async def _beat(home: Path) -> None:
    """Show every few seconds that the worker still runs."""
    while True:
        (home / "prefect" / "worker.json").touch()
        await asyncio.sleep(BEAT_SECONDS)
