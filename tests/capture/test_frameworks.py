"""One contract for every framework, run with the real libraries against a scripted model on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import pytest
from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    Runner,
    Tool,
    add_trace_processor,
    function_tool,
    set_trace_processors,
)
from agents.tracing import set_tracing_disabled
from autogen_agentchat.agents import AssistantAgent
from autogen_core import CancellationToken
from langchain_core.messages import HumanMessage
from langchain_core.tools import StructuredTool
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.tools import FunctionTool
from openai import AsyncOpenAI

from instar.adapters.autogen import InstarContext, InstarWorkbench
from instar.adapters.autogen.testing import EndpointClient
from instar.adapters.capture import Recorder, recorded
from instar.adapters.capture.testing import ScriptedEndpoint, Turn, script
from instar.adapters.langchain import InstarHandler, InstarMemory
from instar.adapters.langchain.testing import agent as langgraph_agent
from instar.adapters.llamaindex import InstarChatMemory, recording
from instar.adapters.llamaindex.testing import endpoint_llm
from instar.adapters.openai_agents import InstarAgents, InstarTracing
from instar.core.drain import drain
from instar.core.runtime import Runtime, runtime
from instar.core.settings import Settings

Start = Callable[..., Recorder]
Calls = Callable[[], list[tuple[str, object, str, object]]]
# llama-index-workflows looks at every attribute of an agent, also at those that pydantic has deprecated.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore:The `{name}` attribute is deprecated")
    for name in ("__fields__", "__fields_set__", "model_fields", "model_computed_fields")
] + [pytest.mark.filterwarnings("ignore:Accessing the 'model_")]
ROLE = "You are a careful clerk."


async def get_order(order: int) -> str:
    """Read an order."""
    await asyncio.sleep(0.05 if order == 1 else 0)
    if order == 13:
        raise ValueError("no such order")
    return f'{{"order": {order}}}'


async def wait_for_parcel(parcel: int) -> str:
    """Wait until a parcel is there."""
    await asyncio.sleep(60)
    return f"parcel {parcel}"


class Framework:
    """How one framework runs a task: its tools are called as the script says."""

    shows_context = True
    stores_words = True

    async def run(self, url: str, recorder: Recorder, *, stream: bool = False) -> None:
        raise NotImplementedError


class LangGraph(Framework):
    async def run(self, url: str, recorder: Recorder, *, stream: bool = False) -> None:
        memory = InstarMemory(recorder)
        graph = langgraph_agent(url, self._tools(), memory=memory)
        await self._run(graph, recorder, stream=stream)

    def _tools(self) -> list[StructuredTool]:
        return [StructuredTool.from_function(coroutine=tool) for tool in (get_order, wait_for_parcel)]

    async def _run(self, graph: Any, recorder: Recorder, *, stream: bool) -> None:
        begin: Any = {"messages": [HumanMessage("Send the orders.")]}
        config: Any = {"callbacks": [InstarHandler(recorder)]}
        if stream:
            async for _ in graph.astream(begin, config, stream_mode="messages"):
                pass
        else:
            await graph.ainvoke(begin, config)


class LangChainCallback(LangGraph):
    """The callback handler alone, as a one-line addition to an agent that exists."""

    shows_context = False

    async def run(self, url: str, recorder: Recorder, *, stream: bool = False) -> None:
        await self._run(langgraph_agent(url, self._tools()), recorder, stream=stream)


class OpenAIAgents(Framework):
    def _agent(self, client: AsyncOpenAI, tools: Sequence[Tool]) -> Agent[None]:
        model = OpenAIChatCompletionsModel("scripted", client)
        settings = ModelSettings(parallel_tool_calls=True)
        return Agent("clerk", instructions="Be brief.", model=model, model_settings=settings, tools=list(tools))

    def _tools(self) -> list[Tool]:
        # By default the SDK keeps what was raised to itself; nobody who listens hears of it.
        return [
            function_tool(tool, failure_error_function=lambda _, error: f"failed: {error}")
            for tool in (get_order, wait_for_parcel)
        ]

    async def run(self, url: str, recorder: Recorder, *, stream: bool = False) -> None:
        async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            await self._run(client, recorder, stream=stream)

    async def _run(self, client: AsyncOpenAI, recorder: Recorder, *, stream: bool) -> None:
        memory = InstarAgents(recorder)
        agent, config = self._agent(client, memory.tools(self._tools())), memory.run_config()
        try:
            if stream:
                result = Runner.run_streamed(agent, "Send the orders.", session=memory.session, run_config=config)
                try:
                    async for _ in result.stream_events():
                        pass
                except asyncio.CancelledError:
                    result.cancel()
                    raise
            else:
                await Runner.run(agent, "Send the orders.", session=memory.session, run_config=config)
        finally:
            memory.close()


class OpenAIAgentsTracing(OpenAIAgents):
    """The tracing processor alone, as a one-line addition to an agent that exists."""

    shows_context = False
    stores_words = False

    async def _run(self, client: AsyncOpenAI, recorder: Recorder, *, stream: bool) -> None:
        add_trace_processor(InstarTracing(recorder))
        agent = self._agent(client, self._tools())
        if stream:
            async for _ in Runner.run_streamed(agent, "Send the orders.").stream_events():
                pass
        else:
            await Runner.run(agent, "Send the orders.")


class AutoGen(Framework):
    async def run(self, url: str, recorder: Recorder, *, stream: bool = False) -> None:
        client = EndpointClient(url)
        agent = AssistantAgent(
            "clerk",
            client,
            workbench=InstarWorkbench(recorder, [get_order, wait_for_parcel]),
            model_context=InstarContext(recorder),
            max_tool_iterations=10,
            model_client_stream=stream,
        )
        token = CancellationToken()
        try:
            if stream:
                async for _ in agent.run_stream(task="Send the orders.", cancellation_token=token):
                    pass
            else:
                await agent.run(task="Send the orders.", cancellation_token=token)
        except asyncio.CancelledError:
            token.cancel()
            raise
        finally:
            await client.close()


class LlamaIndex(Framework):
    async def run(self, url: str, recorder: Recorder, *, stream: bool = False) -> None:
        tools = [FunctionTool.from_defaults(async_fn=tool) for tool in (get_order, wait_for_parcel)]
        agent = FunctionAgent(tools=list(tools), llm=endpoint_llm(url), streaming=stream)
        with recording(recorder):
            handler = agent.run("Send the orders.", memory=InstarChatMemory(recorder))
            try:
                async for _ in handler.stream_events():
                    pass
                await handler
            except asyncio.CancelledError:
                await handler.cancel_run()
                raise


class PlainPython(Framework):
    """No framework: a loop, and functions that are recorded."""

    async def run(self, url: str, recorder: Recorder, *, stream: bool = False) -> None:
        tools = {tool.__name__: recorded(recorder, tool) for tool in (get_order, wait_for_parcel)}
        recorder.message("Send the orders.", speaker="user")
        said: list[dict[str, Any]] = [{"role": "user", "content": "Send the orders."}]
        async with AsyncOpenAI(base_url=url, api_key="none") as client:
            while True:
                asked: Any = [{"role": "system", "content": recorder.context()}, *said]
                answer = await client.chat.completions.create(model="scripted", messages=asked)
                message = answer.choices[0].message
                said.append(message.model_dump(exclude_none=True))
                if not message.tool_calls:
                    recorder.message(message.content or "")
                    return
                await asyncio.gather(*(self._call(tools, call, said) for call in message.tool_calls))

    async def _call(self, tools: dict[str, Any], call: Any, said: list[dict[str, Any]]) -> None:
        try:
            content = await tools[call.function.name](**json.loads(call.function.arguments))
        except ValueError as error:
            content = str(error)
        said.append({"role": "tool", "tool_call_id": call.id, "content": content})


FRAMEWORKS: list[type[Framework]] = [
    PlainPython,
    LangGraph,
    LangChainCallback,
    OpenAIAgents,
    OpenAIAgentsTracing,
    AutoGen,
    LlamaIndex,
]


@pytest.fixture(params=FRAMEWORKS, ids=lambda framework: framework.__name__)
def framework(request: pytest.FixtureRequest) -> Iterator[Framework]:
    set_tracing_disabled(False)
    set_trace_processors([])
    yield request.param()
    set_trace_processors([])


@contextlib.asynccontextmanager
async def finished_or_failed(framework: Framework, url: str, recorder: Recorder, **how: bool) -> AsyncIterator[None]:
    with contextlib.suppress(Exception):
        await framework.run(url, recorder, **how)
    yield


def order(*numbers: int) -> Turn:
    return Turn(calls=[("get_order", {"order": number}) for number in numbers])


def run(framework: Framework, recorder: Recorder, *turns: Turn, stream: bool = False) -> ScriptedEndpoint:
    with ScriptedEndpoint(script(*turns)) as endpoint:
        asyncio.run(framework.run(endpoint.url, recorder, stream=stream))
    return endpoint


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_each_call_is_recorded_once_and_in_order(
    framework: Framework, start: Start, calls: Calls, *, stream: bool
) -> None:
    recorder = start(bootstrap=ROLE)
    run(framework, recorder, order(5), order(7), order(6), Turn("All sent."), stream=stream)
    recorder.close("success")
    assert calls() == [("get_order", {"order": number}, "ok", {"order": number}) for number in (5, 7, 6)]


def test_calls_in_parallel_keep_their_own_results(framework: Framework, start: Start, calls: Calls) -> None:
    recorder = start()
    run(framework, recorder, order(1, 2, 3, 1), Turn("All sent."))
    recorder.close()
    found = calls()
    assert sorted(str(call) for call in found) == sorted(
        str(("get_order", {"order": number}, "ok", {"order": number})) for number in (1, 1, 2, 3)
    )


def test_what_a_tool_raised_is_recorded_as_an_error(framework: Framework, start: Start, calls: Calls) -> None:
    recorder = start()
    with ScriptedEndpoint(script(order(5), order(13), Turn("Sorry."))) as endpoint:

        async def work() -> None:
            async with finished_or_failed(framework, endpoint.url, recorder):
                pass

        asyncio.run(work())
    recorder.close()
    first, second = calls()
    assert first == ("get_order", {"order": 5}, "ok", {"order": 5})
    assert second[:3] == ("get_order", {"order": 13}, "error")
    assert "no such order" in str(second[3])


@pytest.mark.parametrize("how", ["timeout", "cancelled"])
def test_a_call_that_is_cut_off_is_recorded_as_an_error(
    framework: Framework, start: Start, calls: Calls, how: str
) -> None:
    recorder = start()
    with ScriptedEndpoint(script(order(5), Turn(calls=[("wait_for_parcel", {"parcel": 9})]))) as endpoint:

        async def work() -> None:
            task = asyncio.create_task(framework.run(endpoint.url, recorder))
            while len(endpoint.requests) < 2:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            if how == "timeout":
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(task, 0.05)
            else:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

        asyncio.run(work())
    recorder.close()
    found = calls()
    assert found[0] == ("get_order", {"order": 5}, "ok", {"order": 5})
    assert [call[:3] for call in found[1:]] == [("wait_for_parcel", {"parcel": 9}, "error")]


def test_a_broken_store_never_breaks_the_agent(
    framework: Framework, start: Start, calls: Calls, settings: Settings
) -> None:
    settings.home.mkdir()
    (settings.home / "store.db").mkdir()
    recorder = start(bootstrap=ROLE)
    endpoint = run(framework, recorder, order(5), order(6), Turn("All sent."))
    recorder.close("success")
    assert len(endpoint.requests) == 3
    (settings.home / "store.db").rmdir()
    with runtime(settings) as rt:
        drain(rt)
    assert [call[1] for call in calls()] == [{"order": 5}, {"order": 6}]


def test_the_recorded_context_is_before_every_decision(framework: Framework, start: Start) -> None:
    if not framework.shows_context:
        pytest.skip("this way of recording only listens")
    recorder = start(bootstrap=ROLE, constraints=["Never ship to a closed address."])
    endpoint = run(framework, recorder, order(5), order(6), Turn("All sent."))
    for request in endpoint.requests:
        shown = _system(request)
        assert ROLE in shown
        assert "Never ship to a closed address." in shown
    assert "5" in str(endpoint.requests[-1]["messages"])
    assert recorder.faults == {}
    assert '{"order":5}' in recorder.context()


def _system(request: dict[str, Any]) -> str:
    return "\n".join(str(said["content"]) for said in request["messages"] if said["role"] == "system")


def test_words_of_people_and_of_the_model_are_recorded_once(
    framework: Framework, start: Start, settings: Settings
) -> None:
    if not framework.stores_words:
        pytest.skip("this way of recording hears of tools only")
    recorder = start(bootstrap=ROLE)
    run(framework, recorder, order(5), Turn("All sent."))
    recorder.close("success")
    with runtime(settings) as rt:
        assert _words(rt) == [("user", "Send the orders."), ("assistant", "All sent.")]


def _words(rt: Runtime) -> list[tuple[str, str]]:
    pages = sorted(rt.store.find(rt.principal, scope="local", kind="message"), key=lambda page: page.created_at)
    return [(str(page.content["speaker"]), page.text) for page in pages]


def test_a_generator_is_recorded_with_its_parts_also_when_it_is_closed_early(start: Start, calls: Calls) -> None:
    recorder = start()

    def pages(book: str) -> Iterator[str]:
        yield from (f"{book} {number}" for number in range(3))

    async def lines(book: str) -> AsyncIterator[str]:
        for number in range(3):
            yield f"{book} {number}"

    async def read() -> list[str]:
        return [line async for line in recorded(recorder, lines)("b")]

    assert list(recorded(recorder, pages)("a")) == ["a 0", "a 1", "a 2"]
    assert asyncio.run(read()) == ["b 0", "b 1", "b 2"]
    stream: Any = recorded(recorder, pages)("c")
    next(stream)
    stream.close()
    recorder.close()
    assert [(call[0], call[2]) for call in calls()] == [("pages", "ok"), ("lines", "ok"), ("pages", "error")]
    assert calls()[0][3] == ["a 0", "a 1", "a 2"]
