"""Two runs that do the same work at the same moment end with one result, and neither fails."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from instar.core.build import Built, build
from instar.core.ingest import ingest
from instar.core.learn import DistillReport, distill, reflect, specify
from instar.core.reviews import list_reviews
from instar.core.runtime import Runtime, runtime
from instar.core.settings import Settings

SAMPLES = Path(__file__).parents[2] / "examples" / "order_desk" / "sessions"


def both(settings: Settings, work: Callable[[Runtime], object]) -> list[object]:
    barrier, results = threading.Barrier(2), []

    def one() -> None:
        with runtime(settings) as own:
            barrier.wait()
            results.append(work(own))

    threads = [threading.Thread(target=one), threading.Thread(target=one)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_the_chain_can_run_twice_at_once(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", proposals=1)
    with runtime(settings) as rt:
        ingest(rt, [SAMPLES])
    reports = both(settings, distill)
    assert len(reports) == 2
    assert all(isinstance(report, DistillReport) for report in reports)
    with runtime(settings) as rt:
        assert distill(rt).sessions == 0
        memories = rt.store.count(rt.principal, scope="local", kind="memory")
        assert memories == max(report.memories for report in reports if isinstance(report, DistillReport))
        (proposal,) = reflect(rt).proposals
        prd = specify(rt, proposal.id).id
    drafts = both(settings, lambda own: build(own, prd))
    assert len(drafts) == 2
    assert len({draft.review for draft in drafts if isinstance(draft, Built)}) == 1
    with runtime(settings) as rt:
        assert len(list_reviews(rt)) == 1
        assert rt.store.check() == []
