"""Calls that an earlier process of the session made, and whose results its framework did not live to keep.

A process can die between a tool's effect and the moment its framework stores the result. Resumed, the agent asks for
the same call again. It is answered from the record, once for each time that it was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from instar.memstore.harness import signature_of


@dataclass(frozen=True, slots=True)
class Finished:
    """A call that succeeded, and what it returned."""

    call_id: str
    tool: str
    arguments: Mapping[str, JsonValue]
    value: JsonValue


class Answers:
    """The results that are still to be handed out."""

    def __init__(self, finished: Iterable[Finished] = ()) -> None:
        self._by_id = {call.call_id: call for call in finished}

    def __len__(self) -> int:
        return len(self._by_id)

    def take(self, tool: str, arguments: Mapping[str, JsonValue], call_id: str) -> Finished | None:
        """The result of this call, when there is one left: that of the same id, or the oldest of the same call."""
        if not self._by_id:
            return None
        signature = signature_of(tool, arguments)
        known = self._by_id.get(call_id)
        if known is not None and signature_of(known.tool, known.arguments) == signature:
            return self._by_id.pop(call_id)
        for name, call in self._by_id.items():
            if call.tool == tool and signature_of(tool, call.arguments) == signature:
                return self._by_id.pop(name)
        return None

    def discard(self, call_ids: Iterable[str]) -> None:
        """Hand these out no more: the framework has them."""
        for call_id in call_ids:
            self._by_id.pop(call_id, None)
