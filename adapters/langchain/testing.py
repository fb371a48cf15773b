"""A chat model over an OpenAI-compatible endpoint, and a graph that uses it: what the tests and examples run."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode
from openai import OpenAI
from pydantic import Field

from instar.adapters.langchain.memory import InstarMemory

Graph = CompiledStateGraph[Any, Any, Any, Any]


class EndpointChat(BaseChatModel):
    """Asks an endpoint, with the tools that it was given."""

    url: str
    tools: list[dict[str, Any]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "endpoint"

    def with_tools(self, tools: Sequence[BaseTool]) -> EndpointChat:
        return EndpointChat(url=self.url, tools=[convert_to_openai_tool(tool) for tool in tools])

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        with OpenAI(base_url=self.url, api_key="none") as client:
            asked: Any = convert_to_openai_messages(messages)
            tools: Any = self.tools
            answer = client.chat.completions.create(model="scripted", messages=asked, tools=tools)
        said = answer.choices[0].message
        calls = [
            {"name": call.function.name, "args": json.loads(call.function.arguments), "id": call.id}
            for call in said.tool_calls or []
            if call.type == "function"
        ]
        return ChatResult(generations=[ChatGeneration(message=AIMessage(said.content or "", tool_calls=calls))])


Prepare = Callable[[Sequence[BaseMessage]], list[BaseMessage]]


def agent(
    url: str,
    tools: Sequence[BaseTool],
    *,
    memory: InstarMemory | None = None,
    prepare: Prepare | None = None,
    saver: BaseCheckpointSaver[Any] | None = None,
) -> Graph:
    """A graph of a model and its tools; with a memory, that is asked before each decision and around each call."""
    model = EndpointChat(url=url).with_tools(tools)
    before: Prepare = memory.prepare if memory is not None else prepare or list

    def decide(state: MessagesState) -> dict[str, list[BaseMessage]]:
        return {"messages": [model.invoke(before(state["messages"]))]}

    def more(state: MessagesState) -> str:
        last = state["messages"][-1]
        return "tools" if isinstance(last, AIMessage) and last.tool_calls else END

    node = (
        ToolNode(tools, wrap_tool_call=memory.wrap_tool_call, awrap_tool_call=memory.awrap_tool_call)
        if memory is not None
        else ToolNode(tools)
    )
    graph = StateGraph(MessagesState)
    graph.add_node("decide", decide)
    graph.add_node("tools", node)
    graph.add_edge(START, "decide")
    graph.add_conditional_edges("decide", more, ["tools", END])
    graph.add_edge("tools", "decide")
    return graph.compile(checkpointer=saver)
