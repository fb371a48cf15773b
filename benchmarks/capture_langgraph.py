"""A LangGraph agent that reads thirty orders, with Instar's memory or LangGraph's own."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, trim_messages
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver

from benchmarks.capture_world import KEEP_TOKENS, PROMPT, SESSION, World, ended, started
from instar.adapters.langchain import InstarHandler, InstarMemory, InstarSaver
from instar.adapters.langchain.testing import agent


def run(side: str, home: Path, url: str, world: World) -> dict[str, object]:
    """Begin, or go on where a process before this one was killed."""
    config: Any = {"configurable": {"thread_id": SESSION}, "recursion_limit": 250}
    recorder = memory = None
    saver: BaseCheckpointSaver[Any]
    if side == "instar":
        recorder = started(home, "langgraph", world)
        memory = InstarMemory(recorder, keep_tokens=KEEP_TOKENS)
        saver = InstarSaver(recorder.settings, project="orders")
        config["callbacks"] = [InstarHandler(recorder)]
        tool = StructuredTool.from_function(world.read_order, name="read_order")
        graph = agent(url, [tool], memory=memory, saver=saver)
    else:
        saver = DurableSaver(home / "checkpoints")
        graph = agent(url, [mortal_tool(world)], prepare=trimmed, saver=saver)
    begun = bool(graph.get_state(config).values)
    graph.invoke(None if begun else {"messages": [HumanMessage(PROMPT)]}, config)
    return ended(recorder, memory.compactions if memory is not None else 0)


def trimmed(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """LangChain's own way to shorten a conversation, to the same number of tokens."""
    return trim_messages(
        list(messages),
        max_tokens=KEEP_TOKENS,
        token_counter=count_tokens_approximately,
        start_on=("human", "ai"),
        include_system=True,
    )


def mortal_tool(world: World) -> StructuredTool:
    """The tool, after which the process may die."""

    def read_order(order: int) -> dict[str, object]:
        """Read an order."""
        value = world.read_order(order)
        world.answered()
        return value

    return StructuredTool.from_function(read_order)


class DurableSaver(InMemorySaver):
    """LangGraph's saver in memory, whose content survives the process."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file, self._lock = file, threading.Lock()
        if file.exists():
            storage, writes, blobs = pickle.loads(file.read_bytes())  # noqa: S301  (written by this benchmark)
            for thread, spaces in storage.items():
                for namespace, kept in spaces.items():
                    self.storage[thread][namespace].update(kept)
            self.writes.update(writes)
            self.blobs.update(blobs)

    def put(self, *given: Any, **named: Any) -> Any:
        with self._lock:
            kept = super().put(*given, **named)
            self._keep()
            return kept

    def put_writes(self, *given: Any, **named: Any) -> None:
        with self._lock:
            super().put_writes(*given, **named)
            self._keep()

    def _keep(self) -> None:
        storage = {
            thread: {name: dict(kept) for name, kept in spaces.items()} for thread, spaces in self.storage.items()
        }
        fresh = self._file.with_suffix(".new")
        fresh.write_bytes(pickle.dumps((storage, dict(self.writes), dict(self.blobs))))
        fresh.replace(self._file)
