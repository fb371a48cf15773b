"""LlamaIndex: tool calls are recorded wherever they happen; the memory is Instar's. Needs `llama-index-core`."""

from instar.adapters.llamaindex.memory import InstarChatMemory
from instar.adapters.llamaindex.spans import InstarSpans, recording

__all__ = ["InstarChatMemory", "InstarSpans", "recording"]
