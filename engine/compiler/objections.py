"""What speaks against a pattern: what a reviewer should weigh before approving it."""

from __future__ import annotations

from collections.abc import Sequence

from instar.engine.compiler.lessons import Cluster
from instar.engine.compiler.need import Need
from instar.engine.compiler.phrases import Phrases
from instar.engine.documents import Pattern

THIN_TASKS = 5
CHANCE = 0.2
MOST = 6


def objections(pattern: Pattern, need: Need, clusters: Sequence[Cluster], said: Phrases) -> list[str]:
    """Calls that nobody needed, thin evidence, chance agreement, failed tasks, failing tools; at most six."""
    found: list[str] = []
    low, high = need.interval
    if need.opportunities > need.needed:
        others = need.opportunities - need.needed
        found.append(
            said.not_needed.format(
                opportunities=need.opportunities, others=others, share=need.share, low=low, high=high
            )
        )
    if pattern.support.tasks < THIN_TASKS:
        found.append(said.thin.format(tasks=pattern.support.tasks))
    worst = max(pattern.plan.nodes, key=lambda node: node.null_rate)
    if worst.null_rate > CHANCE:
        found.append(said.by_chance.format(tool=worst.tool, rate=worst.null_rate))
    if need.failed:
        found.append(said.failed_tasks.format(failed=need.failed, cited=need.cited))
    tools = {node.tool for node in pattern.plan.nodes}
    for cluster in clusters:
        if cluster.operation.tool in tools and cluster.scope in {"", pattern.project} and len(cluster.failures) > 1:
            found.append(
                said.fails.format(
                    tool=cluster.operation.tool, times=len(cluster.failures), signature=cluster.signature
                )
            )
    return found[:MOST]
