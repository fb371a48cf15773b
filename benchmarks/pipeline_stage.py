"""One stage of the chain, in a process of its own: `python -m benchmarks.pipeline_stage STAGE HOME LOG`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from instar.core import records
from instar.core.build import build
from instar.core.ingest import ingest
from instar.core.learn import distill, reflect, specify
from instar.core.runtime import Runtime, runtime
from instar.core.settings import Settings

Counts = dict[str, int]


def _ingest(rt: Runtime, log: Path) -> Counts:
    report = ingest(rt, [log])
    return {"sessions": report.new, "steps": report.steps, "calls": report.calls, "errors": report.errors}


def _distill(rt: Runtime, log: Path) -> Counts:
    report = distill(rt)
    return {"sessions": report.sessions, "memories": report.memories}


def _reflect(rt: Runtime, log: Path) -> Counts:
    report = reflect(rt)
    return {"patterns": len(report.patterns), "proposals": len(report.proposals)}


def _build(rt: Runtime, log: Path) -> Counts:
    proposals = [page.id for page in rt.store.find(rt.principal, scope="local", kind=records.PROPOSAL)]
    built = [build(rt, specify(rt, proposal).id) for proposal in proposals]
    return {"drafts": len(built), "passed": sum(bool(draft.review) for draft in built)}


VERBS: Mapping[str, Callable[[Runtime, Path], Counts]] = {
    "ingest": _ingest,
    "distill": _distill,
    "reflect": _reflect,
    "build": _build,
}


def main() -> None:
    """Run the stage and print its time and what it counted."""
    stage, home, log = sys.argv[1:4]
    with runtime(Settings(home=Path(home))) as rt:
        began = time.perf_counter()
        counts = VERBS[stage](rt, Path(log))
        print(json.dumps({"seconds": time.perf_counter() - began, "counts": counts}))


if __name__ == "__main__":
    main()
