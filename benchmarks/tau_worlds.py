"""The real tool environments of tau2, brought to the state a recorded session was in at a call."""

from __future__ import annotations

import copy
import importlib
import json
from typing import Any

from pydantic import JsonValue

from benchmarks.skill_replay import ToolFailed, Unanswerable
from instar.engine.compiler.index import Trace
from instar.engine.compiler.values import canonical


class TauWorld:
    """A tau2 domain. `prefix` is what the recordings put before the tools' names."""

    def __init__(self, domain: str, prefix: str = "") -> None:
        module = importlib.import_module(f"tau2.domains.{domain}.environment")
        importlib.import_module("loguru").logger.disable("tau2")
        self._fresh = module.get_environment()
        self.prefix = prefix
        self._states: dict[tuple[str, int], Any] = {}
        self._answers: dict[tuple[str, int, str], tuple[bool, JsonValue]] = {}

    def answer(self, trace: Trace, position: int, tool: str, arguments: dict[str, JsonValue]) -> JsonValue:
        """Answer a call with all writes before `position` applied."""
        if not tool.startswith(self.prefix):
            raise Unanswerable(tool)
        writes = [event for event in trace.events[:position] if event.writes]
        state = (trace.order, len(writes))
        key = (*state, canonical([tool, arguments]))
        if key not in self._answers:
            if state not in self._states:
                self._states[state] = copy.deepcopy(self._fresh) if writes else self._fresh
                for event in writes:
                    self._call(self._states[state], event.tool, event.arguments)
            self._answers[key] = self._call(self._states[state], tool, arguments)
        ok, value = self._answers[key]
        if not ok:
            raise ToolFailed(str(value))
        return value

    def _call(self, environment: Any, tool: str, arguments: dict[str, JsonValue]) -> tuple[bool, JsonValue]:
        try:
            found = environment.make_tool_call(tool.removeprefix(self.prefix), requestor="assistant", **arguments)
        except Exception as error:  # noqa: BLE001 — whatever the tool raises is its answer
            return False, str(error)
        text = environment.to_json_str(found)
        try:
            return True, json.loads(text)
        except ValueError:
            return True, text
