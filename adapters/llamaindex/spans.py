"""LlamaIndex reports every call of a tool as a span, with the arguments, the output and what was raised."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llama_index.core.instrumentation.span import BaseSpan
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_index.core.tools import BaseTool, ToolOutput
from llama_index_instrumentation import get_dispatcher
from pydantic import PrivateAttr

from instar.adapters.capture import Recorder
from instar.adapters.capture.tools import describe

_METHODS = ("call", "acall")


class InstarSpans(BaseSpanHandler[BaseSpan]):
    """A span handler that records the calls of tools. `recording` puts it where it belongs."""

    _recorder: Recorder = PrivateAttr()
    _calls: dict[str, str] = PrivateAttr(default_factory=dict)

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(open_spans={}, completed_spans=[], dropped_spans=[], current_span_ids={})
        self._recorder = recorder

    def new_span(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any | None = None,
        parent_span_id: str | None = None,
        tags: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> BaseSpan | None:
        """A tool is called. What a tool does inside of itself is part of that call."""
        method = id_.partition("-")[0].rpartition(".")[2]
        if not isinstance(instance, BaseTool) or method not in _METHODS or parent_span_id in self._calls:
            return None
        noted = self._recorder.call(instance.metadata.get_name(), _arguments(bound_args), replay=False)
        self._calls[id_] = noted.call_id
        return BaseSpan(id_=id_, parent_id=parent_span_id)

    def prepare_to_exit_span(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any | None = None,
        result: Any | None = None,
        **kwargs: Any,
    ) -> BaseSpan | None:
        """A tool has answered."""
        value, error = result, ""
        if isinstance(result, ToolOutput):
            value = result.raw_output if result.raw_output is not None else result.content
            error = (result.content or "failed") if result.is_error else ""
        return self._end(id_, value, error)

    def prepare_to_drop_span(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any | None = None,
        err: BaseException | None = None,
        **kwargs: Any,
    ) -> BaseSpan | None:
        """A tool has failed or was cancelled."""
        return self._end(id_, None, describe(err) if err is not None else "cancelled")

    def _end(self, id_: str, value: object, error: str) -> BaseSpan | None:
        self._recorder.result(self._calls.pop(id_, ""), value, error=error)
        return self.open_spans.get(id_)


@contextmanager
def recording(recorder: Recorder) -> Iterator[InstarSpans]:
    """Record the tools of everything that LlamaIndex runs in this process while the block lasts."""
    root, spans = get_dispatcher(), InstarSpans(recorder)
    root.add_span_handler(spans)
    try:
        yield spans
    finally:
        root.span_handlers.remove(spans)


def _arguments(bound: inspect.BoundArguments) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            found.update(value)
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            found.update({"args": list(value)} if value else {})
        elif name != "self":
            found[name] = value
    return found
