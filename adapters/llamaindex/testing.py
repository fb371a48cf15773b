"""A model over an OpenAI-compatible endpoint: what the tests and examples run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from openai import OpenAI


def endpoint_llm(url: str) -> MockFunctionCallingLLM:
    """LlamaIndex's own stand-in for a model, asking the endpoint."""

    def ask(messages: Sequence[ChatMessage], **more: Any) -> ChatMessage:
        with OpenAI(base_url=url, api_key="none") as client:
            asked: Any = [_openai(message) for message in messages]
            said = client.chat.completions.create(model="scripted", messages=asked).choices[0].message
        blocks: list[Any] = [TextBlock(text=said.content or "")]
        for call in said.tool_calls or []:
            if call.type == "function":
                arguments = json.loads(call.function.arguments)
                blocks.append(
                    ToolCallBlock(tool_call_id=call.id, tool_name=call.function.name, tool_kwargs=arguments)
                )
        return ChatMessage(role=MessageRole.ASSISTANT, blocks=blocks)

    return MockFunctionCallingLLM(response_generator=ask, is_chat_model=True)


def _openai(message: ChatMessage) -> dict[str, Any]:
    calls = [
        {
            "id": block.tool_call_id,
            "type": "function",
            "function": {"name": block.tool_name, "arguments": json.dumps(block.tool_kwargs)},
        }
        for block in message.blocks
        if isinstance(block, ToolCallBlock)
    ]
    found: dict[str, Any] = {"role": message.role.value, "content": message.content or ""}
    if calls:
        found["tool_calls"] = calls
    if message.role == MessageRole.TOOL:
        found["tool_call_id"] = message.additional_kwargs.get("tool_call_id", "")
    return found
