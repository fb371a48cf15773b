"""The only door in the wall: JSON lines between a job and the trusted side.

The job sends one call at a time and waits for its answer:

    job      {"id": 1, "tool": "get_order", "arguments": {"order_id": "#W1"}}
    trusted  {"id": 1, "result": …}   or   {"id": 1, "error": {"kind": "tool" | "refused" | …, "message": "…"}}
    job      {"returned": …}          or   {"raised": {"type": "…", "message": "…", "traceback": "…"}}

Before the first call the trusted side sends `{"opening": {…}}`. Whatever is not such a line, is too long, arrives
before the last answer went out, or follows the final message ends the job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import JsonValue

from instar.sandbox.protocol import MIB
from instar.skills.manifest import GrantedTool


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """What may pass through the door: bytes of one message, calls, and bytes in all, both ways together."""

    message_bytes: int = MIB
    calls: int = 1000
    total_bytes: int = 32 * MIB


DEFAULT_BROKER_LIMITS = BrokerLimits()


class Answerer(Protocol):
    """Answers calls on the trusted side: from a recording or from the real tool."""

    def answer(self, tool: str, arguments: Mapping[str, JsonValue]) -> JsonValue:
        """Answer one call that was granted and whose arguments fit the schema.

        Raises:
            ToolError: the tool's own error; the skill sees its message.
            Uncovered: no recording answers the call.
        """
        ...


@dataclass(frozen=True, slots=True)
class Broker:
    """What a job is granted, and who answers. Holds no state: every job starts its own conversation."""

    grants: Mapping[str, GrantedTool]
    answerer: Answerer
    limits: BrokerLimits = DEFAULT_BROKER_LIMITS
    opening: Mapping[str, JsonValue] = field(default_factory=dict)
    """Sent to the job before anything else; `run_skill` puts the skill's arguments here."""
