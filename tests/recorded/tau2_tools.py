"""The tool environments of tau2, bound as a user binds real tools: `python = "tau2_tools:airline"`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping


class Environment:
    """One domain; made when a tool is first called, because loading it takes a while."""

    def __init__(self, domain: str) -> None:
        self._domain = domain
        self._environment: object | None = None

    def call(self, name: str, arguments: Mapping[str, object]) -> object:
        """Call a tool by its name."""
        if self._environment is None:
            module = importlib.import_module(f"tau2.domains.{self._domain}.environment")
            self._environment = module.get_environment()
        return self._environment.make_tool_call(name, requestor="assistant", **arguments)


airline = Environment("airline")
retail = Environment("retail")
