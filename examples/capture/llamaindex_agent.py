"""LlamaIndex: `recording` hears of every tool, and the chat memory brings the context."""

import asyncio

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.tools import FunctionTool
from orders import ROLE, RULE, TASK, get_order, scripted_model, settings, show

from instar.adapters.capture import Recorder
from instar.adapters.llamaindex import InstarChatMemory, recording
from instar.adapters.llamaindex.testing import endpoint_llm

home = settings()


async def main() -> None:
    """Run the agent once."""
    recorder = Recorder(home, agent="llamaindex", session="s1", project="shop")
    recorder.start(bootstrap=ROLE, constraints=[RULE])
    with scripted_model() as endpoint, recording(recorder):
        agent = FunctionAgent(
            tools=[FunctionTool.from_defaults(get_order)], llm=endpoint_llm(endpoint.url), streaming=False
        )
        print(await agent.run(TASK, memory=InstarChatMemory(recorder)))
    recorder.close("success")


asyncio.run(main())
show(home)
