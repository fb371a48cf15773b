"""The model's context of an AutoGen agent: asked for before every decision."""

from __future__ import annotations

import json
from collections.abc import Sequence

from autogen_core.model_context import ChatCompletionContext
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
    UserMessage,
)

from instar.adapters.capture import Recorder
from instar.adapters.capture.plain import to_json
from instar.adapters.capture.recorder import LAG
from instar.adapters.capture.window import Window
from instar.memstore.tokens import count_tokens

KEEP_TOKENS = 4_000


class InstarContext(ChatCompletionContext):
    """Pass it as `model_context=` to an agent: it records what is said, and shows what is recorded."""

    def __init__(self, recorder: Recorder, *, keep_tokens: int = KEEP_TOKENS) -> None:
        super().__init__()
        self._recorder = recorder
        self._window = Window(keep_tokens)

    async def add_message(self, message: LLMMessage) -> None:
        """Keep a message; words of people and of the model are recorded."""
        await super().add_message(message)
        if isinstance(message, UserMessage) and isinstance(message.content, str):
            self._recorder.message(message.content, speaker="user")
        elif isinstance(message, AssistantMessage) and isinstance(message.content, str):
            self._recorder.message(message.content)

    async def get_messages(self) -> list[LLMMessage]:
        """What the model sees: the recorded context, and the newest messages as they were."""
        said = self._messages
        self._recorder.delivered(_answered(said))
        if self._window.move([_cost(message) for message in said], [_bound(message) for message in said]):
            self._recorder.compacted()
        context = self._recorder.context(lag=LAG)
        front: list[LLMMessage] = [SystemMessage(content=context)] if context else []
        return front + said[self._window.start :]


def _answered(messages: Sequence[LLMMessage]) -> list[str]:
    results = [message for message in messages if isinstance(message, FunctionExecutionResultMessage)]
    return [result.call_id for message in results for result in message.content]


def _bound(message: LLMMessage) -> bool:
    return isinstance(message, FunctionExecutionResultMessage)


def _cost(message: LLMMessage) -> int:
    content = message.content
    return count_tokens(content if isinstance(content, str) else json.dumps(to_json(content), ensure_ascii=False))
