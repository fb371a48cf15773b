"""AutoGen: a workbench in place of the tools, and a model context."""

import asyncio

from autogen_agentchat.agents import AssistantAgent
from orders import ROLE, RULE, TASK, get_order, scripted_model, settings, show

from instar.adapters.autogen import InstarContext, InstarWorkbench
from instar.adapters.autogen.testing import EndpointClient
from instar.adapters.capture import Recorder

home = settings()


async def main() -> None:
    """Run the agent once."""
    recorder = Recorder(home, agent="autogen", session="s1", project="shop")
    recorder.start(bootstrap=ROLE, constraints=[RULE])
    with scripted_model() as endpoint:
        client = EndpointClient(endpoint.url)
        agent = AssistantAgent(
            "clerk",
            client,
            workbench=InstarWorkbench(recorder, [get_order]),
            model_context=InstarContext(recorder),
            max_tool_iterations=5,
        )
        result = await agent.run(task=TASK)
        await client.close()
    print(result.messages[-1].to_text())
    recorder.close("success")


asyncio.run(main())
show(home)
