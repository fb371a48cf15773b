"""A workbench that records what the workbench in it does."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autogen_core import CancellationToken
from autogen_core.tools import (
    BaseTool,
    FunctionTool,
    StaticWorkbench,
    TextResultContent,
    ToolResult,
    ToolSchema,
    Workbench,
)

from instar.adapters.capture import Recorder
from instar.adapters.capture.tools import describe


class InstarWorkbench(Workbench):
    """Pass it as `workbench=` to an agent, in place of its tools."""

    def __init__(
        self, recorder: Recorder, tools: Workbench | Sequence[BaseTool[Any, Any] | Callable[..., Any]]
    ) -> None:
        self._recorder = recorder
        self._inner = tools if isinstance(tools, Workbench) else StaticWorkbench([_tool(tool) for tool in tools])

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """Make a call, unless an earlier process of this session made it and died before its result was used."""
        noted = self._recorder.call(name, dict(arguments or {}), call_id=call_id or "")
        if noted.answered:
            text = noted.value if isinstance(noted.value, str) else json.dumps(noted.value, ensure_ascii=False)
            return ToolResult(name=name, result=[TextResultContent(content=text)])
        try:
            result = await self._inner.call_tool(name, arguments, cancellation_token, call_id)
        except BaseException as error:
            self._recorder.result(noted.call_id, error=describe(error))
            raise
        text = result.to_text()
        self._recorder.result(noted.call_id, text, error=(text or "failed") if result.is_error else "")
        return result

    async def list_tools(self) -> list[ToolSchema]:
        """The tools of the workbench in it."""
        tools = await self._inner.list_tools()
        self._recorder.offered(tool["name"] for tool in tools)
        return tools

    async def start(self) -> None:
        """Start the workbench in it."""
        await self._inner.start()

    async def stop(self) -> None:
        """Stop the workbench in it."""
        await self._inner.stop()

    async def reset(self) -> None:
        """Reset the workbench in it."""
        await self._inner.reset()

    async def save_state(self) -> Mapping[str, Any]:
        """The state of the workbench in it."""
        return await self._inner.save_state()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Give the workbench in it its state."""
        await self._inner.load_state(state)


def _tool(tool: BaseTool[Any, Any] | Callable[..., Any]) -> BaseTool[Any, Any]:
    if isinstance(tool, BaseTool):
        return tool
    return FunctionTool(tool, description=(tool.__doc__ or "").strip(), name=tool.__name__)
