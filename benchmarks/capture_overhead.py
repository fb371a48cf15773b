"""What recording costs in the process of the agent: runs with and without it, in turns."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from instar.adapters.capture import Recorder, recorded
from instar.adapters.langchain import InstarHandler, InstarMemory
from instar.core.settings import Settings

CALLS = 30


def langgraph_ms(home: Path, *, repeats: int) -> tuple[float, dict[str, float]]:
    """Milliseconds that Instar adds to each tool call of a LangGraph agent, context before the decision included."""
    without, added = [], []
    _run(None)
    for number in range(repeats):
        bare = _run(None)
        recorder = Recorder(Settings(home=home), agent="bench", session=f"s{number}", project="bench", budget=4_000)
        recorder.start(bootstrap="You are a clerk.", constraints=["Never ship to a closed address."])
        full = _run(recorder)
        recorder.close("success")
        without.append(bare * 1e3 / CALLS)
        added.append((full - bare) * 1e3 / CALLS)
    detail = {"without_ms": statistics.median(without), "least_ms": min(added), "most_ms": max(added)}
    return statistics.median(added), detail


def plain_ms(home: Path, *, calls: int) -> float:
    """Median of what recording adds to the call of a plain function."""

    def read_order(order: int) -> dict[str, object]:
        return {"order": order, "state": "packed"}

    recorder = Recorder(Settings(home=home), agent="bench", session="plain", project="bench")
    recorder.start()
    watched = recorded(recorder, read_order)
    taken = []
    for number in range(calls):
        begin = time.perf_counter()
        read_order(number)
        middle = time.perf_counter()
        watched(number)
        taken.append((time.perf_counter() - middle) - (middle - begin))
    recorder.close()
    return statistics.median(taken) * 1e3


class _Model(BaseChatModel):
    """A model that costs nothing: it calls the tool for each order, and stops."""

    @property
    def _llm_type(self) -> str:
        return "counting"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        done = sum(1 for message in messages if message.type == "tool")
        calls = [{"name": "read_order", "args": {"order": done}, "id": f"c{done}"}] if done < CALLS else []
        return ChatResult(generations=[ChatGeneration(message=AIMessage("" if calls else "Done.", tool_calls=calls))])


def _read_order(order: int) -> dict[str, object]:
    """Read an order."""
    return {"order": order, "state": "packed", "items": ["a", "b"]}


def _run(recorder: Recorder | None) -> float:
    """Seconds of one run of the agent."""
    tools = [StructuredTool.from_function(_read_order, name="read_order")]
    memory = InstarMemory(recorder, keep_tokens=100_000) if recorder is not None else None
    model = _Model()

    def decide(state: MessagesState) -> dict[str, list[BaseMessage]]:
        said = memory.prepare(state["messages"]) if memory is not None else state["messages"]
        return {"messages": [model.invoke(said)]}

    def more(state: MessagesState) -> str:
        last = state["messages"][-1]
        return "tools" if isinstance(last, AIMessage) and last.tool_calls else END

    graph = StateGraph(MessagesState)
    graph.add_node("decide", decide)
    graph.add_node("tools", ToolNode(tools, wrap_tool_call=memory.wrap_tool_call) if memory else ToolNode(tools))
    graph.add_edge(START, "decide")
    graph.add_conditional_edges("decide", more, ["tools", END])
    graph.add_edge("tools", "decide")
    compiled = graph.compile()
    config: Any = {"recursion_limit": 200, "callbacks": [InstarHandler(recorder)] if recorder is not None else []}
    begin = time.perf_counter()
    compiled.invoke({"messages": [HumanMessage("Read the orders.")]}, config)
    return time.perf_counter() - begin
