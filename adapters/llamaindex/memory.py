"""The chat memory of a LlamaIndex agent: asked for before every decision."""

from __future__ import annotations

from typing import Any, Self

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory import BaseMemory
from pydantic import PrivateAttr

from instar.adapters.capture import Recorder
from instar.adapters.capture.recorder import LAG
from instar.adapters.capture.window import Window
from instar.memstore.tokens import count_tokens

KEEP_TOKENS = 4_000


class InstarChatMemory(BaseMemory):
    """Pass it as `memory=` to the run of an agent: it records what is said, and shows what is recorded."""

    _recorder: Recorder = PrivateAttr()
    _window: Window = PrivateAttr()
    _messages: list[ChatMessage] = PrivateAttr(default_factory=list)

    def __init__(self, recorder: Recorder, *, keep_tokens: int = KEEP_TOKENS) -> None:
        super().__init__()
        self._recorder = recorder
        self._window = Window(keep_tokens)

    @classmethod
    def class_name(cls) -> str:
        """The name by which LlamaIndex knows it."""
        return "InstarChatMemory"

    @classmethod
    def from_defaults(cls, **kwargs: Any) -> Self:
        """From a recorder, which it cannot do without.

        Raises:
            KeyError: no recorder was given.
        """
        return cls(kwargs["recorder"], keep_tokens=kwargs.get("keep_tokens", KEEP_TOKENS))

    def get(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:  # noqa: A002  (LlamaIndex's name)
        """What the model sees: the recorded context, and the newest messages as they were."""
        said = self._messages
        if self._window.move([_cost(message) for message in said], [message.role == "tool" for message in said]):
            self._recorder.compacted()
        context = self._recorder.context(input or "", lag=LAG)
        front = [ChatMessage(context, role=MessageRole.SYSTEM)] if context else []
        return front + said[self._window.start :]

    def get_all(self) -> list[ChatMessage]:
        """Every message as it was."""
        return list(self._messages)

    def put(self, message: ChatMessage) -> None:
        """Keep a message; words of people and of the model are recorded."""
        self._messages.append(message)
        if message.role in (MessageRole.USER, MessageRole.ASSISTANT) and message.content:
            self._recorder.message(message.content, speaker=message.role.value)

    def set(self, messages: list[ChatMessage]) -> None:
        """Begin with these messages; those that were not recorded are."""
        self._messages = list(messages)
        spoken = [message for message in messages if message.role in (MessageRole.USER, MessageRole.ASSISTANT)]
        self._recorder.heard([(message.role.value, message.content or "") for message in spoken])

    def reset(self) -> None:
        """Begin anew; what is recorded stays recorded."""
        self._messages = []
        self._recorder.compacted()


def _cost(message: ChatMessage) -> int:
    calls = message.additional_kwargs.get("tool_calls")
    return count_tokens(message.content or "") + count_tokens(str(calls or "")) + 4
