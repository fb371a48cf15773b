"""What tests of the harness begin with: a session that has started, a rule, a call with its result."""

from __future__ import annotations

from pydantic import JsonValue

from instar.memstore.harness import Harness
from instar.memstore.pages import PageDraft, PageType
from instar.memstore.store import Store
from instar.memstore.templates import Templates
from instar.memstore.testing import ALICE

SCOPE = "local/desk"
LONG = "The shipment was delayed because of a storm at the port. " * 30


def started(store: Store, *, budget: int = 2000, session: str = "s1", templates: Templates | None = None) -> Harness:
    """A harness whose session has started."""
    harness = Harness(store, ALICE, scope=SCOPE, session=session, budget=budget, templates=templates)
    harness.session_start()
    return harness


def rule(text: str = "Never ship to a closed address.") -> PageDraft:
    """A standing rule."""
    return PageDraft(kind="rule", type=PageType.CONSTRAINT, content={"rule": text})


def call(harness: Harness, number: int, value: JsonValue = LONG) -> str:
    """Record a call with its result; returns its page."""
    harness.tool_start("get_order", {"order": number}, call_id=f"c{number}")
    return harness.tool_result(f"c{number}", value)


def controllable(harness: Harness) -> int:
    """How many faults a policy could have avoided."""
    return sum(count for kind, count in harness.ledger.faults.items() if kind.controllable)
