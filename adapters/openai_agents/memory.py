"""Everything that a run of the OpenAI Agents SDK needs of Instar, in one object."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from agents import FunctionTool, RunConfig, Tool
from agents.run import CallModelData, ModelInputData
from agents.tool_context import ToolContext
from agents.tracing import get_current_span

from instar.adapters.capture import Recorder
from instar.adapters.capture.recorder import LAG
from instar.adapters.capture.tools import describe
from instar.adapters.capture.window import Window
from instar.adapters.openai_agents.items import Item, answered, bound, costs, said
from instar.adapters.openai_agents.session import InstarSession
from instar.adapters.openai_agents.tracing import InstarTracing, span_error

KEEP_TOKENS = 4_000
Invoke = Callable[[ToolContext[Any], str], Awaitable[Any]]


class InstarAgents:
    """Give the agent `tools=memory.tools([...])`, and the run `memory.session` and `memory.run_config()`."""

    def __init__(self, recorder: Recorder, *, keep_tokens: int = KEEP_TOKENS) -> None:
        self._recorder = recorder
        self._window = Window(keep_tokens)
        self.session = InstarSession(recorder.settings, recorder.session, project=recorder.project, recorder=recorder)
        """Keeps the conversation, also over the end of the process."""
        self.tracing = InstarTracing(recorder)
        """For tools that are not wrapped by `tools`; add it with `agents.add_trace_processor`."""

    @property
    def compactions(self) -> int:
        """How often the conversation was shortened."""
        return self._window.moves

    def run_config(self, config: RunConfig | None = None) -> RunConfig:
        """A run configuration that puts the recorded context before every decision."""
        return dataclasses.replace(config or RunConfig(), call_model_input_filter=self.before_decision)

    def before_decision(self, data: CallModelData[Any]) -> ModelInputData:
        """The newest items as they were, and the recorded context behind the agent's instructions."""
        given = data.model_data
        items = cast(Sequence[Item], given.input)
        self._recorder.delivered(answered(items))
        self._recorder.heard(said(items))
        if self._window.move(costs(items), bound(items)):
            self._recorder.compacted()
        context = self._recorder.context(lag=LAG)
        instructions = "\n\n".join(part for part in (given.instructions, context) if part)
        return ModelInputData(input=given.input[self._window.start :], instructions=instructions or None)

    def tools(self, tools: Sequence[Tool]) -> list[Tool]:
        """The same tools, each call recorded before it is made, and none made twice because a process died."""
        self._recorder.offered(tool.name for tool in tools)
        return [
            dataclasses.replace(tool, on_invoke_tool=self._recorded(tool.on_invoke_tool))
            if isinstance(tool, FunctionTool)
            else tool
            for tool in tools
        ]

    def close(self) -> None:
        """Give back the store of the session."""
        self.session.close()

    def _recorded(self, invoke: Invoke) -> Invoke:
        async def invoke_recorded(context: ToolContext[Any], arguments: str) -> Any:
            span = get_current_span()
            if span is not None:
                self.tracing.recorded(span.span_id)
            noted = self._recorder.call(context.tool_name, arguments, call_id=context.tool_call_id)
            if noted.answered:
                return noted.value
            try:
                value = await invoke(context, arguments)
            except BaseException as error:
                self._recorder.result(noted.call_id, error=describe(error))
                raise
            # A tool that turns its exceptions into an answer tells of them only in the span.
            self._recorder.result(noted.call_id, value, error=span_error(span, value))
            return value

        return invoke_recorded
