"""A checkpointer that keeps the state of graphs in the page store.

What a checkpointer has to answer is LangGraph's own `InMemorySaver`; the pages are the log from which that is filled
when a thread is first asked for. So a store that breaks costs the checkpoints of that time, and not the run.
"""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from pydantic import JsonValue

from instar.adapters.capture.pages import PageLink
from instar.adapters.langchain.clean import clean
from instar.core.settings import Settings
from instar.memstore import Page, PageDraft, PageType

CHECKPOINT, WRITES = "langgraph-checkpoint", "langgraph-writes"


class InstarSaver(BaseCheckpointSaver[str]):
    """Checkpoints as pages, without secrets. Threads of different projects do not meet."""

    def __init__(self, settings: Settings, *, project: str = "", serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self._memory = InMemorySaver(serde=serde)
        self._link = PageLink(settings, project)
        self._loaded: set[str] = set()
        self._lock = threading.RLock()

    # LangGraph's interface

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The newest checkpoint of a thread, or the one asked for."""
        return self._ready(config).get_tuple(config)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  (LangGraph's name)
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, newest first."""
        memory = self._ready(config) if config is not None else self._ready_all()
        return memory.list(config, filter=filter, before=before, limit=limit)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep a checkpoint; returns how to ask for it."""
        with self._lock:
            memory = self._ready(config)
            values = checkpoint["channel_values"]
            kept = {**checkpoint, "channel_values": {name: values[name] for name in new_versions if name in values}}
            content: dict[str, JsonValue] = {
                "checkpoint": self._pack(kept),
                "metadata": self._pack(metadata),
                "new_versions": self._pack(dict(new_versions)),
            }
            self._write(CHECKPOINT, config, content)
            return memory.put(config, checkpoint, metadata, new_versions)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Keep what a task wrote before its step is over."""
        with self._lock:
            memory = self._ready(config)
            content: dict[str, JsonValue] = {
                "writes": self._pack([list(write) for write in writes]),
                "task_id": task_id,
                "task_path": task_path,
            }
            self._write(WRITES, config, content)
            memory.put_writes(config, writes, task_id, task_path)

    def delete_thread(self, thread_id: str) -> None:
        """Show a thread no more. Its pages are hidden, and stay until retention says otherwise."""
        with self._lock:
            self._memory.delete_thread(thread_id)
            self._link.hide(_session(thread_id))

    def get_next_version(self, current: str | None, channel: None) -> str:
        """The version after this one."""
        return self._memory.get_next_version(current, channel)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As `get_tuple`."""
        return self.get_tuple(config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """As `list`."""
        for found in self.list(config, filter=filter, before=before, limit=limit):
            yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As `put`."""
        return self.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """As `put_writes`."""
        self.put_writes(config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """As `delete_thread`."""
        self.delete_thread(thread_id)

    def close(self) -> None:
        """Give back the store."""
        self._link.close()

    # Inside

    def _ready(self, config: RunnableConfig) -> InMemorySaver:
        """The saver in memory, with everything that is stored of this thread."""
        thread = str(config["configurable"]["thread_id"])
        with self._lock:
            if thread not in self._loaded:
                pages = self._link.pages(CHECKPOINT, WRITES, session=_session(thread))
                if pages is not None:
                    self._loaded.add(thread)
                    for page in pages:
                        self._replay(page)
        return self._memory

    def _ready_all(self) -> InMemorySaver:
        with self._lock:
            for page in self._link.pages(CHECKPOINT) or []:
                thread = str(page.content.get("thread_id"))
                self._ready({"configurable": {"thread_id": thread}})
        return self._memory

    def _replay(self, page: Page) -> None:
        content = page.content
        config: RunnableConfig = {
            "configurable": {
                name: content[name] for name in ("thread_id", "checkpoint_ns", "checkpoint_id") if name in content
            }
        }
        if page.kind == CHECKPOINT:
            unpacked = (self._unpack(content[name]) for name in ("checkpoint", "metadata", "new_versions"))
            checkpoint, metadata, versions = unpacked
            self._memory.put(config, checkpoint, metadata, versions)
        elif page.kind == WRITES:
            writes = [(str(channel), value) for channel, value in self._unpack(content["writes"])]
            self._memory.put_writes(config, writes, str(content["task_id"]), str(content["task_path"]))

    def _write(self, kind: str, config: RunnableConfig, content: dict[str, JsonValue]) -> None:
        where = config["configurable"]
        thread = str(where["thread_id"])
        place: dict[str, JsonValue] = {"thread_id": thread, "checkpoint_ns": str(where.get("checkpoint_ns", ""))}
        if where.get("checkpoint_id"):
            place["checkpoint_id"] = str(where["checkpoint_id"])
        self._link.write(
            PageDraft(kind=kind, type=PageType.EVIDENCE, content=place | content, session=_session(thread))
        )

    def _pack(self, value: object) -> JsonValue:
        kind, data = self.serde.dumps_typed(clean(value))
        return [kind, base64.b64encode(data).decode()]

    def _unpack(self, packed: JsonValue) -> Any:
        kind, data = packed if isinstance(packed, list) else ["null", ""]
        return self.serde.loads_typed((str(kind), base64.b64decode(str(data))))


def _session(thread_id: str) -> str:
    return f"thread-{hashlib.sha256(thread_id.encode()).hexdigest()[:16]}"
