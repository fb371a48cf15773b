"""The tracing processor: it hears of every tool call of every run, also of those that nobody else sees."""

from __future__ import annotations

import sys
import threading
from datetime import datetime
from typing import Any

from agents.tracing import FunctionSpanData, Span, Trace, TracingProcessor

from instar.adapters.capture import Recorder
from instar.adapters.capture.tools import describe


class InstarTracing(TracingProcessor):
    """Records the function spans of runs. Add it with `agents.add_trace_processor`.

    A span carries its input and output only when it ends, so a call is taken down then, with the times of both.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._lock = threading.Lock()
        self._recorded: set[str] = set()

    def recorded(self, span_id: str) -> None:
        """A wrapper around the tool has recorded the call of this span."""
        with self._lock:
            self._recorded.add(span_id)

    def on_trace_start(self, trace: Trace) -> None:
        """Nothing: a trace is a run of the workflow, and the session is the recorder's."""

    def on_trace_end(self, trace: Trace) -> None:
        """Nothing."""

    def on_span_start(self, span: Span[Any]) -> None:
        """Nothing: the span does not know its input yet."""

    def on_span_end(self, span: Span[Any]) -> None:
        """A tool has answered or failed."""
        data = span.span_data
        if not isinstance(data, FunctionSpanData):
            return
        with self._lock:
            if span.span_id in self._recorded:
                self._recorded.discard(span.span_id)
                return
        noted = self._recorder.call(
            data.name, data.input or "", call_id=span.span_id, at=_time(span.started_at), replay=False
        )
        error = span_error(span, data.output)
        raised = sys.exception()
        if not error and data.output is None and raised is not None:
            error = describe(raised)  # a cancelled call ends its span without a word
        self._recorder.result(noted.call_id, data.output, error=error, at=_time(span.ended_at))

    def shutdown(self) -> None:
        """Nothing: the recorder is closed by whoever opened it."""

    def force_flush(self) -> None:
        """Nothing is held back."""


def span_error(span: Span[Any] | None, output: object) -> str:
    """The error of a call in words; "" where it has none. What the model was told of it says more than the span."""
    error = span.error if span is not None else None
    if not error:
        return ""
    return output if isinstance(output, str) and output else str(error.get("message") or "failed")


def _time(text: str | None) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except ValueError:
        return None
