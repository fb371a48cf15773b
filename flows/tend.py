"""Looking after reviews: every quarter of an hour, and whenever something starts."""

from __future__ import annotations

import os

from prefect import flow, get_run_logger

from instar.core.revising import revise
from instar.core.runtime import runtime
from instar.core.settings import load_settings
from instar.flows.errors import FlowsError
from instar.flows.rest import Rest
from instar.flows.review_runs import open_review, tend


@flow(name="tend-reviews", flow_run_name="tend reviews")
async def tend_reviews() -> str:
    """Let reviews expire, answer those that were sent back, and bring the runs to what the reviews are.

    Raises:
        FlowsError: this process works with no server, or the server says no.
    """
    rest = Rest.of_this_run()
    if rest is None:
        raise FlowsError("no Prefect server is set; run this flow through `instar up`")
    settings = load_settings(os.environ, {})
    done = tend(settings, rest)
    for review_id in done.revise:
        with runtime(settings) as rt:
            revision = revise(rt, review_id)
            if revision.answer:
                open_review(rt, revision.answer, rest)
    told = (
        f"{len(done.opened)} opened, {len(done.continued)} continued, {len(done.ended)} ended, "
        f"{len(done.expired)} expired, {len(done.revise)} sent back"
    )
    get_run_logger().info("%s", told)
    return told
