"""Reflection on failure: started by an automation, on just the evidence of the events that wait."""

from __future__ import annotations

import os

from prefect import flow

from instar.core.events_reflection import Answered
from instar.core.settings import load_settings
from instar.tasks.night import patient, reflect_on_events
from instar.tasks.verbs import Options


@flow(name="reflect-on-failure", flow_run_name="reflect on {group}", persist_result=False)
async def reflect_on_failure(group: str, options: Options | None = None) -> Answered:
    """Answer the events of a group that wait. Where an earlier run answered them all, there is nothing to do.

    It emits none of the events that start it.
    """
    flags: Options = options or {}
    pauses = load_settings(os.environ, flags).retry_seconds
    return patient(reflect_on_events, pauses)(group, flags)
