"""The OpenAI Agents SDK: one object brings the session, the recorded tools and the context."""

import asyncio

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI
from orders import ROLE, RULE, TASK, get_order, scripted_model, settings, show

from instar.adapters.capture import Recorder
from instar.adapters.openai_agents import InstarAgents

home = settings()
set_tracing_disabled(True)  # the SDK's own export needs a key


async def main() -> None:
    """Run the agent once."""
    recorder = Recorder(home, agent="openai-agents", session="s1", project="shop")
    recorder.start(bootstrap=ROLE, constraints=[RULE])
    memory = InstarAgents(recorder)
    with scripted_model() as endpoint:
        async with AsyncOpenAI(base_url=endpoint.url, api_key="none") as client:
            tools = memory.tools([function_tool(get_order, strict_mode=False)])
            agent = Agent("clerk", model=OpenAIChatCompletionsModel("any", client), tools=tools)
            result = await Runner.run(agent, TASK, session=memory.session, run_config=memory.run_config())
    print(result.final_output)
    memory.close()
    recorder.close("success")


asyncio.run(main())
show(home)
