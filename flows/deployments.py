"""The flows that the worker serves. Whoever adds a flow adds a line here; nothing else has to know of it.

This module never imports Prefect, nor the flows: each is named by its dotted path and imported where it is served.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from instar.core.settings import Settings


@dataclass(frozen=True, slots=True)
class Cron:
    """When a flow runs by itself: a cron line and the time zone that it is read in."""

    line: str
    zone: str


def never(settings: Settings) -> Cron | None:
    """No schedule: the flow runs when it is asked to."""
    return None


@dataclass(frozen=True, slots=True)
class Deployment:
    """A flow as the worker serves it."""

    name: str
    """Of the deployment, and of the flow itself: `instar prefect deployment run NAME/NAME`."""
    flow: str
    """Where it is: "instar.flows.evolve:evolve"."""
    schedule: Callable[[Settings], Cron | None] = never
    at_once: int | None = None
    """At most so many runs at a time; more wait for their turn."""

    @property
    def full_name(self) -> str:
        """As Prefect's `run_deployment` wants it."""
        return f"{self.name}/{self.name}"


def every_night(settings: Settings) -> Cron | None:
    """As the settings say."""
    return Cron(settings.nightly, settings.timezone) if settings.nightly else None


def every_quarter_hour(settings: Settings) -> Cron | None:
    """Four times an hour."""
    return Cron("*/15 * * * *", "UTC")


DEPLOYMENTS: list[Deployment] = [
    Deployment("evolve", "instar.flows.evolve:evolve"),
    Deployment("nightly", "instar.flows.nightly:nightly", every_night, at_once=1),
    Deployment("reflect-on-failure", "instar.flows.reflect:reflect_on_failure"),
    Deployment("review", "instar.flows.review:review"),
    Deployment("tend-reviews", "instar.flows.tend:tend_reviews", every_quarter_hour, at_once=1),
]
