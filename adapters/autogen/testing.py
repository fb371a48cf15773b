"""A model client over an OpenAI-compatible endpoint: what the tests and examples run."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Literal

from autogen_core import CancellationToken, FunctionCall
from autogen_core.models import (
    AssistantMessage,
    ChatCompletionClient,
    CreateResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    ModelCapabilities,
    ModelFamily,
    ModelInfo,
    RequestUsage,
    SystemMessage,
)
from autogen_core.tools import Tool, ToolSchema
from openai import AsyncOpenAI
from pydantic import BaseModel


class EndpointClient(ChatCompletionClient):
    def __init__(self, url: str) -> None:
        self._client = AsyncOpenAI(base_url=url, api_key="none")

    async def create(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Sequence[Tool | ToolSchema] = (),
        tool_choice: Tool | Literal["auto", "required", "none"] = "auto",
        json_output: bool | type[BaseModel] | None = None,
        extra_create_args: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
    ) -> CreateResult:
        asked: Any = [part for message in messages for part in _openai(message)]
        answer = await self._client.chat.completions.create(model="scripted", messages=asked)
        said = answer.choices[0].message
        calls = [
            FunctionCall(id=call.id, name=call.function.name, arguments=call.function.arguments)
            for call in said.tool_calls or []
            if call.type == "function"
        ]
        return CreateResult(
            finish_reason="function_calls" if calls else "stop",
            content=calls or said.content or "",
            usage=RequestUsage(1, 1),
            cached=False,
        )

    async def create_stream(
        self, messages: Sequence[LLMMessage], **more: Any
    ) -> AsyncGenerator[str | CreateResult, None]:
        yield await self.create(messages)

    async def close(self) -> None:
        await self._client.close()

    def actual_usage(self) -> RequestUsage:
        return RequestUsage(1, 1)

    def total_usage(self) -> RequestUsage:
        return RequestUsage(1, 1)

    def count_tokens(self, messages: Sequence[LLMMessage], *, tools: Sequence[Tool | ToolSchema] = ()) -> int:
        return len(messages)

    def remaining_tokens(self, messages: Sequence[LLMMessage], *, tools: Sequence[Tool | ToolSchema] = ()) -> int:
        return 1_000

    @property
    def capabilities(self) -> ModelCapabilities:
        return {"vision": False, "function_calling": True, "json_output": False}

    @property
    def model_info(self) -> ModelInfo:
        return {
            "vision": False,
            "function_calling": True,
            "json_output": False,
            "structured_output": False,
            "family": ModelFamily.UNKNOWN,
        }


def _openai(message: LLMMessage) -> list[dict[str, Any]]:
    if isinstance(message, FunctionExecutionResultMessage):
        return [{"role": "tool", "tool_call_id": one.call_id, "content": one.content} for one in message.content]
    if isinstance(message, AssistantMessage) and not isinstance(message.content, str):
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.content
        ]
        return [{"role": "assistant", "content": None, "tool_calls": calls}]
    role = {SystemMessage: "system", AssistantMessage: "assistant"}.get(type(message), "user")
    content = message.content
    return [{"role": role, "content": content if isinstance(content, str) else json.dumps(content, default=str)}]
