"""The automations of a home: what Prefect starts by itself."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.events import EventTrigger
from prefect.events.actions import RunDeployment
from prefect.events.schemas.automations import AutomationCore, Posture

from instar.core.events import EventName
from instar.flows.delivery import RESOURCE

ON_FAILURE = "instar: reflect on failure"


def on_failure(deployment_id: UUID) -> AutomationCore:
    """Start a reflection on each group of failures that is told of.

    Debouncing is done before (see `instar.flows.delivery`), so every event counts. It listens to the worker's own
    resource only, which no flow emits: no run can start another. A group never looks like a number, which Prefect
    would turn into one and then refuse.
    """
    return AutomationCore(
        name=ON_FAILURE,
        description="Failures that Instar was told of start a reflection on just that evidence.",
        trigger=EventTrigger(
            expect={name.value for name in EventName},
            match={"prefect.resource.id": f"{RESOURCE}.*"},
            posture=Posture.Reactive,
            threshold=1,
            within=timedelta(0),
        ),
        actions=[
            RunDeployment(
                source="selected",
                deployment_id=deployment_id,
                job_variables=None,
                parameters={"group": "{{ event.resource['instar.group'] }}"},
            )
        ],
    )


async def put_automation(client: PrefectClient, wanted: AutomationCore) -> None:
    """Make sure that there is this automation, once."""
    for found in await client.read_automations_by_name(wanted.name):
        await client.delete_automation(found.id)
    await client.create_automation(wanted)
