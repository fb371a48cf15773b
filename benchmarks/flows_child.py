"""One run of the chain in a process of its own: `python -m benchmarks.flows_child plain|flow HOME LOG [ADDRESS]`.

Both do the same work on the same sessions. What is timed begins after the imports, which every process pays once.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from instar.core.build import build
from instar.core.ingest import ingest
from instar.core.learn import distill, reflect, specify
from instar.core.runtime import runtime
from instar.core.settings import Settings
from instar.flows.environment import adopt_environment


def plain(home: Path, log: Path) -> int:
    """The verbs, one after the other."""
    with runtime(Settings(home=home, host_skills=())) as rt:
        ingest(rt, [log])
        distill(rt)
        proposals = [each for each in reflect(rt).proposals if each.plan is not None]
        return len([build(rt, specify(rt, each.id).id) for each in proposals])


def as_flow(log: Path) -> int:
    """The same as a Prefect flow with a task for each verb, its artifacts and its logs."""
    from instar.flows.evolve import evolve  # noqa: PLC0415 — Prefect reads its environment when it is imported

    return len(asyncio.run(evolve([str(log)], "local", {})).drafts)


def main() -> None:
    """Run, and print the seconds that the work took and the drafts that came of it."""
    how, home, log = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    os.environ |= {"INSTAR_HOME": str(home), "INSTAR_HOST_SKILLS": "none", "INSTAR_PROJECT": str(home)}
    work: Callable[[], int]
    if how == "flow":
        adopt_environment(home, sys.argv[4])
        import instar.flows.evolve  # noqa: PLC0415 — see above

        work = lambda: as_flow(log)  # noqa: E731
    else:
        import instar.tasks.verbs  # noqa: PLC0415, F401 — so that both have paid for the same imports

        work = lambda: plain(home, log)  # noqa: E731
    began, cpu = time.perf_counter(), time.process_time()
    drafts = work()
    print(json.dumps({"seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu, "drafts": drafts}))


if __name__ == "__main__":
    main()
