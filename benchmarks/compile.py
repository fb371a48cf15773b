"""Skills compiled from half of the tasks, used in the sessions of the other half.

Twenty splits by task (seeds 0 to 19). The emitted code is executed; what the recording does not answer, the tau2
environment does, in the state the session was in. *Needed firing* uses a skill where it really replaces turns;
*fired* follows the rule that was learned with the skill. Both count turns over all left-out sessions.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from benchmarks import lessons
from benchmarks.data import recorded
from benchmarks.memory import measure_memory
from benchmarks.result import Bar, Result, progress
from benchmarks.skill_replay import Cassette, Replayer, Score, World
from benchmarks.tau_worlds import TauWorld
from benchmarks.toolbench import read_toolbench
from instar.engine.compiler.firing import context_before, fires
from instar.engine.compiler.index import Event, Trace, traces
from instar.engine.compiler.mine import mine
from instar.engine.compiler.uses import batch_node
from instar.engine.documents import Pattern
from instar.engine.importers import Imported, read_sources
from instar.engine.plan import FromResult
from instar.engine.session import Session, ToolResult

DESCRIPTION = "what compiled skills save in left-out sessions, how often they are right, and when they abstain"
BARS = {
    **{f"{domain}.superset_share": Bar(0.98, "at least") for domain in ("airline", "retail")},
    **{f"{domain}.wrong": Bar(0, "equals") for domain in ("airline", "retail")},
    "airline.turns_saved": Bar(0.28, "at least"),
    "retail.turns_saved": Bar(0.38, "at least"),
    "airline.coverage": Bar(0.50, "at least"),
    "retail.coverage": Bar(0.85, "at least"),
    "fired.needed_share": Bar(0.60, "at least"),
    "fired.kept_share": Bar(0.80, "at least"),
    "false_bindings": Bar(0, "equals"),
    "abstain.toolbench_per_100": Bar(1, "at most"),
    "abstain.mcpbench_per_100": Bar(1, "at most"),
    "failures.retail": Bar(0.60, "at least"),
    "failures.coding": Bar(0.20, "at least"),
    "retrieval.top3": Bar(0.90, "at least"),
    "scale10k.seconds": Bar(60, "at most"),
    "scale10k.mb": Bar(1_000, "at most"),
}
BASELINES = {
    "airline.turns_saved": 0.264,
    "airline.coverage": 0.46,
    "retail.turns_saved": 0.335,
    "retail.coverage": 0.84,
    "fired.needed_share": 0.44,
}
"""The study that the compiler was designed from, on the same sessions; its skills fired at every first call."""

SPLITS = 20


@dataclass(frozen=True, slots=True)
class Domain:
    """Recorded sessions and the environment that answers what they do not."""

    name: str
    sessions: Sequence[Session]
    world: World


def run(quick: bool) -> Result:
    """Measure everything; `quick` takes two splits and 1,000 generated sessions."""
    splits = 2 if quick else SPLITS
    recordings = _read("tau-bench", "agentrx", "general-agentbench")
    results: dict[str, float] = {}
    detail: dict[str, object] = {"seeds": list(range(splits))}
    fired: list[tuple[float, float]] = []
    false_bindings = 0
    for domain in _domains(recordings):
        progress(f"{domain.name}: {splits} splits of {len(domain.sessions)} sessions")
        measured = measure(domain, splits)
        detail[domain.name] = measured
        for key in ("superset_share", "wrong", "turns_saved", "coverage"):
            results[f"{domain.name}.{key}"] = float(measured[key])
        if domain.name in {"airline", "retail"}:
            fired.append((float(measured["needed_share"]), float(measured["kept_share"])))
            false_bindings += permuted(domain.sessions, splits)
    results["fired.needed_share"] = min(needed for needed, _ in fired)
    results["fired.kept_share"] = min(kept for _, kept in fired)
    results["false_bindings"] = false_bindings
    for name, sessions in _controls(recordings).items():
        progress(f"{name}: {len(sessions)} sessions")
        mined = mine(sessions)
        results[f"abstain.{name}_per_100"] = round(100 * len(mined.patterns) / len(sessions), 4)
        detail[f"abstain.{name}"] = {
            "sessions": len(sessions),
            "patterns": [pattern.title for pattern in mined.patterns],
            "abstentions": [abstention.model_dump() for abstention in mined.abstentions],
        }
    figures, more = lessons.figures(quick)
    size = 1_000 if quick else 10_000
    progress(f"{size} generated sessions")
    child = measure_memory([sys.executable, "-m", "benchmarks.compile_child", str(size)])
    told = json.loads(child.stdout)
    results |= figures | {"scale10k.seconds": told["seconds"], "scale10k.mb": round(child.peak_bytes / 1e6, 1)}
    detail |= {"lessons": more, "scale10k": told}
    return Result(results, detail, BASELINES)


def measure(domain: Domain, splits: int) -> dict[str, float]:
    """Return the means over splits; verdicts are summed."""
    shares: dict[str, list[float]] = {"turns_saved": [], "coverage": [], "needed_share": [], "kept_share": []}
    total = Score()
    for seed in range(splits):
        learned, left_out = halves(domain.sessions, seed)
        patterns = mine(learned).patterns
        loops = [pattern for pattern in patterns if batch_node(pattern.plan) is None]
        best, possible, fired = Score(), Score(), Score()
        for found in (trace for group in traces(left_out).values() for trace in group):
            best.add(found, Replayer(patterns, domain.world).needed(found))
            possible.add(found, Replayer(loops, domain.world).needed(found))
            fired.add(found, Replayer(loops, domain.world).fired(found, _by_rule))
        shares["turns_saved"].append(best.saved_share)
        shares["coverage"].append(best.coverage)
        shares["needed_share"].append(fired.needed_share)
        shares["kept_share"].append(fired.saved / possible.saved if possible.saved else 1.0)
        total.uses += best.uses
        total.verdicts += best.verdicts + fired.verdicts
    counted = total.verdicts.total()
    means = {name: round(sum(values) / len(values), 4) for name, values in shares.items()}
    spread = {f"{name}_{end.__name__}": round(end(shares[name]), 4) for name in shares for end in (min, max)}
    right = total.verdicts["exact"] + total.verdicts["superset"]
    return means | spread | {
        "superset_share": round(right / max(counted, 1), 4),
        "wrong": float(total.verdicts["wrong"]),
        "uses": float(counted),
        **{verdict: float(count) for verdict, count in sorted(total.verdicts.items())},
    }  # fmt: skip


def halves(sessions: Sequence[Session], seed: int) -> tuple[list[Session], list[Session]]:
    """Split by task: never one session of a task on either side."""
    tasks = sorted({session.task for session in sessions})
    random.Random(seed).shuffle(tasks)
    learned = set(tasks[: (len(tasks) + 1) // 2])
    return [s for s in sessions if s.task in learned], [s for s in sessions if s.task not in learned]


def permuted(sessions: Sequence[Session], seeds: int) -> int:
    """Give every call the answer that its tool gave in another task; return how many bindings are mined from that."""
    count = 0
    for seed in range(seeds):
        for pattern in mine(list(shuffled(sessions, random.Random(seed)))).patterns:
            count += sum(isinstance(b, FromResult) for node in pattern.plan.nodes for b in node.arguments.values())
    return count


def shuffled(sessions: Sequence[Session], chance: random.Random) -> Iterable[Session]:
    """Yield the sessions with answers swapped between tasks, tool by tool."""
    answers: dict[str, list[tuple[str, ToolResult]]] = {}
    for session in sessions:
        for step in session.steps:
            if isinstance(step, ToolResult):
                answers.setdefault(step.tool, []).append((session.task, step))
    for session in sessions:
        steps = []
        for step in session.steps:
            if isinstance(step, ToolResult):
                foreign = [result for task, result in answers[step.tool] if task != session.task]
                if foreign:
                    other = chance.choice(foreign)
                    step = replace(step, value=other.value, status=other.status, error=other.error)  # noqa: PLW2901
            steps.append(step)
        yield replace(session, steps=tuple(steps))


def _by_rule(trace: Trace, event: Event, pattern: Pattern) -> bool:
    rule = pattern.plan.firing
    return rule is not None and fires(rule, context_before(trace, event))


def _read(*names: str) -> list[Session]:
    found = read_sources([recorded(name) for name in names])
    return [one.session for one in found if isinstance(one, Imported)]


def _domains(recordings: Sequence[Session]) -> list[Domain]:
    def of(project: str) -> list[Session]:
        return [session for session in recordings if session.project == project]

    return [
        Domain("airline", of("tau-bench/airline"), TauWorld("airline")),
        Domain("retail", of("tau2/retail"), TauWorld("retail", "retail_")),
        Domain("agentrx_retail", of("tau-bench/retail"), TauWorld("retail")),
        Domain("tau2_airline", of("tau2/airline"), TauWorld("airline", "airline_")),
        Domain("telecom", of("tau2/telecom"), Cassette()),
    ]


def _controls(recordings: Sequence[Session]) -> dict[str, list[Session]]:
    return {
        "toolbench": list(read_toolbench(recorded("toolbench/gpt-3.5-turbo_CoT.tar.gz"))),
        "mcpbench": [s for s in recordings if s.project.startswith("mcpbench")],
        "swebench": [s for s in recordings if s.project.startswith("swebench")],
        "terminalbench": [s for s in recordings if s.project.startswith("terminalbench")],
        "claude_code": _read("claude-code"),
    }
