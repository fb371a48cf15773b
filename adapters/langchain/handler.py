"""The callback handler: it hears of every model and tool call of a chain or graph, in threads and in tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from instar.adapters.capture import Recorder
from instar.adapters.capture.tools import describe as in_words

_PAUSES = "GraphBubbleUp"
"""LangGraph stops a node by an exception of this family; the node runs again later."""


class InstarHandler(BaseCallbackHandler):
    """Records into a recorder. Pass it as a callback of the outermost call: `config={"callbacks": [handler]}`.

    Starts and ends are matched by their run id, so that parallel calls of one tool keep apart.
    """

    run_inline = True  # in the order in which things happen, also in asynchronous code

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._calls: dict[UUID, str] = {}

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], *, run_id: UUID, **more: object
    ) -> None:
        """What people said, as far as it is not recorded yet."""
        self._recorder.decision()
        self._recorder.offered(_offered(more.get("invocation_params")))
        for conversation in messages:
            said = [("user", message.text) for message in conversation if message.type == "human"]
            self._recorder.heard(said)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **more: object) -> None:
        """What the model answered in words."""
        for choices in response.generations:
            for generation in choices[:1]:
                text = generation.message.text if isinstance(generation, ChatGeneration) else generation.text
                self._recorder.message(text)

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        inputs: dict[str, Any] | None = None,
        **more: object,
    ) -> None:
        """A tool is called."""
        given = more.get("tool_call_id")
        call_id = given if isinstance(given, str) else ""
        if call_id and self._recorder.running(call_id):
            return  # the tool node's wrapper has it
        tool = str(more.get("name") or serialized.get("name") or "tool")
        noted = self._recorder.call(tool, inputs if inputs is not None else input_str, call_id=call_id or run_id.hex)
        self._calls[run_id] = noted.call_id

    def on_tool_end(self, output: object, *, run_id: UUID, **more: object) -> None:
        """A tool has answered."""
        call_id = self._calls.pop(run_id, "")
        value, error = outcome(output)
        self._recorder.result(call_id, value, error=error)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **more: object) -> None:
        """A tool has failed, was cancelled, or has stopped to ask."""
        self._recorder.result(self._calls.pop(run_id, ""), error=describe(error))


def _offered(parameters: object) -> list[str]:
    """The names of the tools that a model is offered, in OpenAI's form or Anthropic's."""
    tools = parameters.get("tools") if isinstance(parameters, dict) else None
    found = []
    for tool in tools if isinstance(tools, list) else []:
        inner = tool.get("function", tool) if isinstance(tool, dict) else None
        name = inner.get("name") if isinstance(inner, dict) else None
        found += [name] if isinstance(name, str) else []
    return found


def outcome(output: object) -> tuple[object, str]:
    """Value and error of what a tool returned."""
    if isinstance(output, ToolMessage):
        text = output.text
        value: object = text if isinstance(output.content, str) else output.content
        return value, (text or "failed") if output.status == "error" else ""
    return output, ""


def describe(error: BaseException) -> str:
    """An exception in words."""
    if any(kind.__name__ == _PAUSES for kind in type(error).__mro__):
        return "interrupted: the call is made again when the run goes on"
    return in_words(error)


def call_ids(messages: Sequence[BaseMessage]) -> list[str]:
    """The ids of the calls whose results are among the messages."""
    return [message.tool_call_id for message in messages if isinstance(message, ToolMessage)]
