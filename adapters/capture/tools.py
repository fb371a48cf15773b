"""Record plain Python functions as tools: also those that are asynchronous, or that give their answer bit by bit."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, ParamSpec, TypeVar, cast

from pydantic import JsonValue

from instar.adapters.capture.recorder import Recorder

P = ParamSpec("P")
R = TypeVar("R")


def recorded(recorder: Recorder, function: Callable[P, R], *, name: str = "") -> Callable[P, R]:
    """The same function, each call recorded with what it returned, raised or was cancelled by.

    A call that an earlier process of the session finished is answered from the record, once each time it was made.
    The parts of a stream are recorded as a list when it ends, also when it ends early.
    """
    tool = name or getattr(function, "__name__", type(function).__name__)
    signature = inspect.signature(function)

    def begin(*args: P.args, **kwargs: P.kwargs) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return recorder.call(tool, _named(bound))

    if inspect.isasyncgenfunction(function):
        wrapper: Callable[..., Any] = _async_stream(recorder, function, begin)
    elif inspect.isgeneratorfunction(function):
        wrapper = _stream(recorder, function, begin)
    elif inspect.iscoroutinefunction(function):
        wrapper = _async_call(recorder, function, begin)
    else:
        wrapper = _call(recorder, function, begin)
    return cast(Callable[P, R], functools.wraps(function)(wrapper))


def describe(error: BaseException) -> str:
    """An exception in words."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _named(bound: inspect.BoundArguments) -> dict[str, object]:
    """Arguments by name; those that a function takes by `**` are among the others."""
    found: dict[str, object] = {}
    for name, value in bound.arguments.items():
        if bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            found.update(value)
        else:
            found[name] = value
    found.pop("self", None)
    return found


def _call(recorder: Recorder, function: Callable[..., Any], begin: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        noted = begin(*args, **kwargs)
        if noted.answered:
            return noted.value
        try:
            value = function(*args, **kwargs)
        except BaseException as error:
            recorder.result(noted.call_id, error=describe(error))
            raise
        recorder.result(noted.call_id, value)
        return value

    return call


def _async_call(recorder: Recorder, function: Callable[..., Any], begin: Callable[..., Any]) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        noted = begin(*args, **kwargs)
        if noted.answered:
            return noted.value
        try:
            value = await function(*args, **kwargs)
        except BaseException as error:
            recorder.result(noted.call_id, error=describe(error))
            raise
        recorder.result(noted.call_id, value)
        return value

    return call


def _stream(recorder: Recorder, function: Callable[..., Any], begin: Callable[..., Any]) -> Callable[..., Any]:
    def stream(*args: Any, **kwargs: Any) -> Iterator[Any]:
        noted = begin(*args, **kwargs)
        if noted.answered:
            yield from _parts(noted.value)
            return
        parts: list[Any] = []
        try:
            for part in function(*args, **kwargs):
                parts.append(part)
                yield part
        except BaseException as error:
            recorder.result(noted.call_id, parts, error=describe(error))
            raise
        recorder.result(noted.call_id, parts)

    return stream


def _async_stream(recorder: Recorder, function: Callable[..., Any], begin: Callable[..., Any]) -> Callable[..., Any]:
    async def stream(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        noted = begin(*args, **kwargs)
        if noted.answered:
            for part in _parts(noted.value):
                yield part
            return
        parts: list[Any] = []
        try:
            async for part in function(*args, **kwargs):
                parts.append(part)
                yield part
        except BaseException as error:
            recorder.result(noted.call_id, parts, error=describe(error))
            raise
        recorder.result(noted.call_id, parts)

    return stream


def _parts(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else [value]
