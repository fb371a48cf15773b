"""The memory of a LangGraph agent: the context before each decision, and calls that are not made twice."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from instar.adapters.capture import Noted, Recorder
from instar.adapters.capture.recorder import LAG
from instar.adapters.capture.window import Window
from instar.adapters.langchain.handler import call_ids, describe, outcome
from instar.memstore.tokens import count_tokens

KEEP_TOKENS = 4_000

Answer = ToolMessage | Command[Any]


class InstarMemory:
    """Shortens the conversation and puts the recorded context in front of what is left.

    Use `prepare` on the messages before each call of the model (or `pre_model_hook` where a graph takes one), and
    `wrap_tool_call` and `awrap_tool_call` in the `ToolNode`.
    """

    def __init__(self, recorder: Recorder, *, keep_tokens: int = KEEP_TOKENS) -> None:
        self._recorder = recorder
        self._window = Window(keep_tokens)
        self._costs: dict[str, tuple[int, int]] = {}

    @property
    def compactions(self) -> int:
        """How often the conversation was shortened."""
        return self._window.moves

    def prepare(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """The messages for the model: what it is, what is recorded, and the newest exchanges as they were."""
        self._recorder.delivered(call_ids(messages))
        first = 1 if messages and isinstance(messages[0], SystemMessage) else 0
        said = list(messages[first:])
        self._recorder.heard([("user", message.text) for message in said if message.type == "human"])
        if self._window.move([self._cost(message) for message in said], [message.type == "tool" for message in said]):
            self._recorder.compacted()
        head = [str(messages[0].text)] if first else []
        if context := self._recorder.context(lag=LAG):
            head.append(context)
        front: list[BaseMessage] = [SystemMessage("\n\n".join(head))] if head else []
        return front + said[self._window.start :]

    def _cost(self, message: BaseMessage) -> int:
        """Tokens of a message, counted once."""
        if message.id is None:
            return _cost(message)
        known = self._costs.get(message.id)
        if known is None or known[0] != len(message.content):
            known = self._costs[message.id] = (len(message.content), _cost(message))
        return known[1]

    def pre_model_hook(self, state: Mapping[str, Any]) -> dict[str, list[BaseMessage]]:
        """`prepare` in the form of LangGraph's hook: the state keeps all messages, the model sees these."""
        return {"llm_input_messages": self.prepare(state["messages"])}

    def wrap_tool_call(self, request: ToolCallRequest, execute: Callable[[ToolCallRequest], Answer]) -> Answer:
        """Make a call, unless an earlier process of this session made it and died before its result was kept."""
        noted = self._begin(request)
        if noted.answered:
            return _answered(request, noted)
        try:
            answer = execute(request)
        except BaseException as error:
            self._recorder.result(noted.call_id, error=describe(error))
            raise
        self._end(noted, answer)
        return answer

    async def awrap_tool_call(
        self, request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[Answer]]
    ) -> Answer:
        """As `wrap_tool_call`."""
        noted = self._begin(request)
        if noted.answered:
            return _answered(request, noted)
        try:
            answer = await execute(request)
        except BaseException as error:
            self._recorder.result(noted.call_id, error=describe(error))
            raise
        self._end(noted, answer)
        return answer

    def _begin(self, request: ToolCallRequest) -> Noted:
        call, state = request.tool_call, request.state
        messages = state.get("messages", []) if isinstance(state, dict) else state if isinstance(state, list) else []
        self._recorder.delivered(call_ids([message for message in messages if isinstance(message, BaseMessage)]))
        return self._recorder.call(call["name"], call["args"], call_id=call["id"] or "")

    def _end(self, noted: Noted, answer: Answer) -> None:
        value, error = outcome(answer)
        self._recorder.result(noted.call_id, value, error=error)


def _cost(message: BaseMessage) -> int:
    calls = (
        json.dumps(message.tool_calls, default=str) if isinstance(message, AIMessage) and message.tool_calls else ""
    )
    return count_tokens(message.text) + count_tokens(calls) + 4


def _answered(request: ToolCallRequest, noted: Noted) -> ToolMessage:
    value = noted.value
    content = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return ToolMessage(content, name=request.tool_call["name"], tool_call_id=request.tool_call["id"] or noted.call_id)
