"""Loads the code the compiler emits, in this process: benchmarks only ever run what our own emitter just wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from instar.engine.compiler.emit import emit
from instar.engine.compiler.mine import plan_id
from instar.engine.plan import Plan

_LOADED: dict[str, Callable[..., Any]] = {}


def load_run(plan: Plan) -> Callable[..., Any]:
    """Return `run` of the plan's code."""
    key = plan_id("", plan)
    if key not in _LOADED:
        namespace: dict[str, Any] = {}
        exec(compile(emit(plan).source, f"<{key}>", "exec"), namespace)  # noqa: S102 — our own output
        _LOADED[key] = cast(Callable[..., Any], namespace["run"])
    return _LOADED[key]
