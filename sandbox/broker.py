"""The only door in the wall: JSON lines between a job and the trusted side.

The job sends one call at a time and waits for its answer:

    job      {"id": 1, "tool": "get_order", "arguments": {"order_id": "#W1"}}
    trusted  {"id": 1, "result": …}   or   {"id": 1, "error": {"kind": "tool" | "refused" | …, "message": "…"}}
    job      {"returned": …}          or   {"raised": {"type": "…", "message": "…", "traceback": "…"}}

Before the first call the trusted side sends `{"opening": {…}}`. Whatever is not such a line, is too long, arrives
before the last answer went out, or follows the final message ends the job.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from pydantic import JsonValue

from instar.sandbox.errors import ToolError, Uncovered, UnusableSchema
from instar.sandbox.jsonvalues import parse
from instar.sandbox.protocol import MIB, CallRecord, CallStatus, Raised, Returned
from instar.sandbox.reach import out_of_reach
from instar.sandbox.schemas import ArgumentSchema
from instar.skills.manifest import GrantedTool

KINDS: Final = {
    CallStatus.FAILED: "tool",
    CallStatus.REFUSED: "refused",
    CallStatus.INVALID: "invalid",
    CallStatus.UNCOVERED: "uncovered",
}
"""What the job is told about an error."""


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """What may pass through the door: bytes of one message, calls, and bytes in all, both ways together."""

    message_bytes: int = MIB
    calls: int = 1000
    total_bytes: int = 32 * MIB


DEFAULT_BROKER_LIMITS = BrokerLimits()


GONE: Final = "the job was over before the tool could be asked"


class Answerer(Protocol):
    """Answers calls on the trusted side: from a recording or from the real tool.

    One that never waits for anything may say so with `instant = True`; while any other answers, the job's time is
    watched by a thread of its own.
    """

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


class ProtocolViolation(Exception):
    """The job broke the rules of the channel; the job ends with this reason."""


class Conversation:
    """One job's talk with the broker: bytes in, bytes out, and a record of every call.

    Not safe to share between threads; it belongs to the loop that watches one job.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._schemas: dict[str, ArgumentSchema] = {}
        self._received = bytearray()
        self._total = 0
        self.instant = getattr(broker.answerer, "instant", False) is True
        """Whether an answer never takes long."""
        self.job_is_over = False
        """Nobody waits for an answer any more: what may act and take its time is not asked."""
        self.calls: list[CallRecord] = []
        self.final: Returned | Raised | None = None

    def open(self) -> bytes:
        """What to send before anything else."""
        return self._encode({"opening": dict(self._broker.opening)})

    def receive(self, data: bytes) -> bytes:
        """Take what the job sent; return what to send back.

        Raises:
            ProtocolViolation: the job broke the rules. The record keeps what happened before.
        """
        self._count(len(data))
        self._received += data
        end = self._received.find(b"\n")
        if end < 0:
            if len(self._received) > self._broker.limits.message_bytes:
                raise ProtocolViolation(f"a message is longer than {self._broker.limits.message_bytes} bytes")
            return b""
        line, rest = bytes(self._received[:end]), bytes(self._received[end + 1 :])
        if self.final is not None:
            raise ProtocolViolation("a message after the final one")
        if rest:
            raise ProtocolViolation("a message before the last one was answered")
        self._received.clear()
        if len(line) > self._broker.limits.message_bytes:
            raise ProtocolViolation(f"a message is longer than {self._broker.limits.message_bytes} bytes")
        return self._handle(line)

    def close(self) -> None:
        """The job closed its end.

        Raises:
            ProtocolViolation: in the middle of a message.
        """
        if self._received:
            raise ProtocolViolation("the channel ended in the middle of a message")

    def _handle(self, line: bytes) -> bytes:
        try:
            message = parse(line)
        except ValueError as error:
            raise ProtocolViolation(f"a message is not JSON: {error}") from error
        if not isinstance(message, dict):
            raise ProtocolViolation("a message is not an object")
        match sorted(message):
            case ["arguments", "id", "tool"]:
                return self._call(message)
            case ["returned"]:
                self.final = Returned(message["returned"])
            case ["raised"]:
                self.final = _raised(message["raised"])
            case _:
                raise ProtocolViolation("a message has unknown or missing keys")
        return b""

    def _call(self, message: dict[str, JsonValue]) -> bytes:
        number, tool, arguments = message["id"], message["tool"], message["arguments"]
        if not isinstance(tool, str) or not isinstance(arguments, dict):
            raise ProtocolViolation("a call without a tool's name or an object of arguments")
        if type(number) is not int or number != len(self.calls) + 1:
            raise ProtocolViolation("a call out of sequence")
        if number > self._broker.limits.calls:
            raise ProtocolViolation(f"more than {self._broker.limits.calls} calls")
        record = self._answer(tool, arguments)
        self.calls.append(record)
        reply: dict[str, JsonValue] = {"id": number, "result": record.result}
        if record.error is not None:
            kind = KINDS[record.status]
            reply = {"id": number, "error": {"kind": kind, "message": record.error}}
        return self._encode(reply)

    def _answer(self, tool: str, arguments: dict[str, JsonValue]) -> CallRecord:
        granted = self._broker.grants.get(tool)
        if granted is None:
            outside = f"the tool {tool[:128]!r} is not granted"
        else:
            outside = out_of_reach(tool, granted.reach, arguments)
        if granted is None or outside:
            return CallRecord(tool, arguments, CallStatus.REFUSED, error=outside)
        problem = self._problem(granted, arguments)
        if problem:
            return CallRecord(tool, arguments, CallStatus.INVALID, error=f"arguments of {tool}: {problem}")
        if self.job_is_over and not self.instant:
            return CallRecord(tool, arguments, CallStatus.FAILED, error=GONE)
        try:
            return CallRecord(tool, arguments, CallStatus.ANSWERED, self._broker.answerer.answer(tool, arguments))
        except Uncovered as error:
            return CallRecord(tool, arguments, CallStatus.UNCOVERED, error=str(error))
        except ToolError as error:
            return CallRecord(tool, arguments, CallStatus.FAILED, error=error.message)

    def _problem(self, granted: GrantedTool, arguments: dict[str, JsonValue]) -> str:
        """What is wrong with the arguments. A schema that cannot be used lets nothing through."""
        if not granted.parameters:
            return ""
        if granted.name not in self._schemas:
            try:
                self._schemas[granted.name] = ArgumentSchema(granted.parameters)
            except UnusableSchema as error:
                return f"the granted schema cannot be used: {error}"
        return self._schemas[granted.name].problem(arguments)

    def _encode(self, message: Mapping[str, JsonValue]) -> bytes:
        data = json.dumps(message, allow_nan=False).encode() + b"\n"
        self._count(len(data))
        return data

    def _count(self, size: int) -> None:
        self._total += size
        if self._total > self._broker.limits.total_bytes:
            raise ProtocolViolation(f"more than {self._broker.limits.total_bytes} bytes in all")


def _raised(described: JsonValue) -> Raised:
    if not isinstance(described, dict):
        raise ProtocolViolation("an exception is not described by an object")
    kind, message, trace = described.get("type"), described.get("message"), described.get("traceback", "")
    if not isinstance(kind, str) or not isinstance(message, str) or not isinstance(trace, str):
        raise ProtocolViolation("an exception is described without a type or a message")
    return Raised(kind, message, trace)
