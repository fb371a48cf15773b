"""What the examples share: a tool, a scripted model, and a look at what was recorded."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from instar.adapters.capture.testing import ScriptedEndpoint, Turn, script
from instar.core.runtime import runtime
from instar.core.settings import Settings

ROLE = "You are a careful clerk of a small shop."
RULE = "Never ship to a closed address."
TASK = "Where are the orders 7 and 8?"


def get_order(order: int) -> dict[str, object]:
    """Look up an order."""
    return {"order": order, "state": "sent" if order == 7 else "packed"}


def scripted_model() -> ScriptedEndpoint:
    """A model that looks up both orders and answers. In place of it goes the endpoint of your own."""
    return ScriptedEndpoint(
        script(
            Turn(calls=[("get_order", {"order": 7})]),
            Turn(calls=[("get_order", {"order": 8})]),
            Turn("Order 7 was sent, order 8 is packed."),
        )
    )


def settings() -> Settings:
    """The home that was named, or one that is thrown away."""
    return Settings(home=Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="instar-example-")))


def show(settings: Settings) -> None:
    """Print what was recorded of tools."""
    with runtime(settings) as rt:
        for page in rt.store.find(rt.principal, scope=settings.scope, kind="tool-call"):
            print(page.content["tool"], page.content["arguments"], "->", page.content["value"])
