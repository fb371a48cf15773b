"""An agent of the OpenAI Agents SDK that reads thirty orders, with Instar's memory or the SDK's own."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

from agents import (
    Agent,
    FunctionTool,
    MaxTurnsExceeded,
    OpenAIChatCompletionsModel,
    RunConfig,
    Runner,
    SessionSettings,
    SQLiteSession,
    Tool,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

from benchmarks.capture_world import KEEP_TOKENS, PROMPT, SESSION, World, ended, started
from instar.adapters.openai_agents import InstarAgents

LIMIT = 20
"""Items of the conversation that the SDK's own session gives back: about as many as the other side's tokens hold."""
MOST_TURNS = 80


def run(side: str, home: Path, url: str, world: World) -> dict[str, object]:
    """Begin, or go on where a process before this one was killed."""
    set_tracing_disabled(True)
    tool: FunctionTool = function_tool(world.read_order, name_override="read_order")
    recorder = memory = None
    session: Any
    if side == "instar":
        recorder = started(home, "agents", world)
        memory = InstarAgents(recorder, keep_tokens=KEEP_TOKENS)
        tools, session, config = memory.tools([tool]), memory.session, memory.run_config()
    else:
        tools = [mortal(tool, world)]
        session = SQLiteSession(SESSION, home / "agents.db", session_settings=SessionSettings(limit=LIMIT))
        config = RunConfig()
    try:
        asyncio.run(_run(url, tools, session, config))
    except MaxTurnsExceeded as error:
        return ended(recorder, memory.compactions if memory is not None else 0) | {"error": type(error).__name__}
    return ended(recorder, memory.compactions if memory is not None else 0)


async def _run(url: str, tools: list[Tool], session: Any, config: RunConfig) -> None:
    async with AsyncOpenAI(base_url=url, api_key="none") as client:
        model = OpenAIChatCompletionsModel("scripted", client)
        agent = Agent("clerk", instructions="Work through the list.", model=model, tools=tools)
        prompt = "Continue." if await session.get_items() else PROMPT
        await Runner.run(agent, prompt, session=session, run_config=config, max_turns=MOST_TURNS)


def mortal(tool: FunctionTool, world: World) -> Tool:
    """The tool, after which the process may die."""
    inner = tool.on_invoke_tool

    async def invoke(context: Any, arguments: str) -> Any:
        value = await inner(context, arguments)
        world.answered()
        return value

    return dataclasses.replace(tool, on_invoke_tool=invoke)
