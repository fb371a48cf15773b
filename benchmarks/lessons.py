"""What lessons foresee and whether a skill is found: figures over left-out tasks of recorded sessions.

A failure counts as *foreseen* only when the advice that was learned from other tasks, and that applies to the failed
call, is among the changes of the recovery that was recorded later. The share is taken over the left-out failures that
have a recorded recovery; the share over all left-out failures is in the detail.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from benchmarks.data import recorded
from benchmarks.decoys import DECOYS
from benchmarks.lessons_verdicts import READ
from benchmarks.result import progress
from instar.engine.compiler.comparison import Operation
from instar.engine.compiler.compiler import Compiler
from instar.engine.compiler.lessons import Cluster, clusters, task_of
from instar.engine.compiler.propose import ProposalSettings
from instar.engine.compiler.reflect import ReflectSettings
from instar.engine.compiler.requests import request_of, stem_of
from instar.engine.documents import Catalogue, Draft, Window
from instar.engine.importers import Imported, read_sources
from instar.engine.session import Session
from instar.skills.document import description_of
from instar.skills.package import SKILL_MD

SPLITS = 20
RETAIL = ("agentrx", "general-agentbench")
CODING = ("claude-code", "general-agentbench")


@dataclass(slots=True)
class Foreseen:
    """Counts over the splits of one set of sessions."""

    failures: int = 0
    recovered: int = 0
    advised: int = 0
    foreseen: int = 0
    shares: list[float] = field(default_factory=list)
    missed: Counter[str] = field(default_factory=Counter)

    @property
    def share(self) -> float:
        """Foreseen failures of those with a recorded recovery, over all splits together."""
        return self.foreseen / self.recovered if self.recovered else 0.0

    def detail(self) -> dict[str, object]:
        """What a reader needs to judge the share."""
        return {
            "of_all_failures": round(self.foreseen / max(self.failures, 1), 4),
            "of_those_with_advice": round(self.foreseen / max(self.advised, 1), 4),
            "lowest_split": round(min(self.shares, default=0.0), 4),
            "highest_split": round(max(self.shares, default=0.0), 4),
            "failures_per_split": round(self.failures / max(len(self.shares), 1), 1),
            "recovered_per_split": round(self.recovered / max(len(self.shares), 1), 1),
            "missed_most": dict(self.missed.most_common(10)),
        }


def sessions_of(*names: str, keep: Callable[[Session], bool] = lambda _: True) -> list[Session]:
    """The sessions of recorded folders, as the importers read them.

    Raises:
        DataMissing: a folder is not there.
    """
    found: list[Session] = []
    for name in names:
        progress(f"reading {name}")
        found += [item.session for item in read_sources([recorded(name)]) if isinstance(item, Imported)]
    return [session for session in found if keep(session)]


def retail_sessions() -> list[Session]:
    """AgentRx retail and tau2 retail."""
    return sessions_of(*RETAIL, keep=lambda session: session.project in {"tau-bench/retail", "tau2/retail"})


def coding_sessions() -> list[Session]:
    """Claude Code, SWE-bench and Terminal-Bench."""

    def coding(session: Session) -> bool:
        return session.format == "claude-code" or session.project.startswith(("swebench", "terminalbench"))

    return sessions_of(*CODING, keep=coding)


def halves(sessions: Sequence[Session], seed: int) -> tuple[list[Session], list[Session]]:
    """Learn on half of the tasks, look at the other half; the same for the same seed."""
    tasks = sorted({task_of(session) for session in sessions})
    random.Random(seed).shuffle(tasks)
    learned = set(tasks[: len(tasks) // 2])
    return (
        [session for session in sessions if task_of(session) in learned],
        [session for session in sessions if task_of(session) not in learned],
    )


def foreseen(sessions: Sequence[Session], splits: int = SPLITS) -> Foreseen:
    """Learn lessons on half of the tasks and compare them with the recoveries of the other half, `splits` times."""
    counts = Foreseen()
    for seed in range(splits):
        learned, left_out = halves(sessions, seed)
        known = {_key(cluster): cluster for cluster in clusters(learned)}
        before = counts.foreseen, counts.recovered
        for cluster in clusters(left_out):
            _compare(cluster, known.get(_key(cluster)), counts)
        hits, recovered = counts.foreseen - before[0], counts.recovered - before[1]
        counts.shares.append(hits / recovered if recovered else 0.0)
    return counts


def _key(cluster: Cluster) -> tuple[str, Operation, str]:
    return cluster.scope, cluster.operation, cluster.signature


def _compare(cluster: Cluster, lesson: Cluster | None, counts: Foreseen) -> None:
    for failure in cluster.failures:
        counts.failures += 1
        if failure.recovery is None:
            continue
        counts.recovered += 1
        advice = lesson.advice_for(failure.call.arguments) if lesson else None
        counts.advised += advice is not None
        if advice is not None and advice.change in failure.recovery.changes:
            counts.foreseen += 1
        else:
            why = "never seen before" if lesson is None else "no advice" if advice is None else "other advice"
            counts.missed[f"{cluster.operation}: {cluster.signature[:60]} ({why})"] += 1


def failures(quick: bool = False) -> tuple[dict[str, float], dict[str, object]]:
    """`failures.retail` and `failures.coding`, and their detail."""
    splits = 4 if quick else SPLITS
    results: dict[str, float] = {}
    detail: dict[str, object] = {"seeds": list(range(splits))}
    for name, sessions in (("retail", retail_sessions()), ("coding", coding_sessions())):
        progress(f"lessons of {name}: {len(sessions)} sessions")
        counts = foreseen(sessions, splits)
        results[f"failures.{name}"] = round(counts.share, 4)
        detail[name] = {"sessions": len(sessions), **counts.detail()}
    return results, detail


def annotated_steps() -> dict[str, object]:
    """Which of the failures that people annotated in AgentRx the reflection names by their step; the rest is listed.

    A step is named when a failure cluster cites the call or the result at that place of the conversation.
    """
    with gzip.open(recorded("agentrx/annotated_failures.json.gz"), "rt", encoding="utf-8") as stream:
        annotated = json.load(stream)
    sessions = {session.task: session for session in sessions_of("agentrx")}
    cited = {
        (failure.session.task, failure.call.index): failure
        for cluster in clusters(list(sessions.values()))
        for failure in cluster.failures
    }
    named: list[str] = []
    missed: list[str] = []
    for item in annotated:
        task = str(item["trajectory_id"])
        for failure in item["failures"]:
            step = int(failure["step_number"])
            hit = any(where == task and abs(index - step) <= 1 for where, index in cited)
            (named if hit else missed).append(f"task {task}, step {step}: {failure['failure_category']}")
    return {"annotated": len(named) + len(missed), "named": named, "missed": missed}


def retrieval(quick: bool = False) -> tuple[dict[str, float], dict[str, object]]:
    """`retrieval.top3`: the share of left-out requests for which the right skill is among the first three of 51.

    Skills are compiled from half of the tasks. A request is what the user said before the pattern's first call in a
    left-out session that really used it. Only name and description are searched, as hosts do, with BM25.
    """
    splits = 2 if quick else 10
    sets = {
        "airline": sessions_of("tau-bench", keep=lambda session: session.project == "tau-bench/airline"),
        "retail": retail_sessions(),
    }
    hits: dict[str, list[bool]] = {name: [] for name in sets}
    examples: list[str] = []
    for name, sessions in sets.items():
        for seed in range(splits):
            learned, left_out = halves(sessions, seed)
            for draft, tools in _drafts(learned):
                description = description_of(draft.files[SKILL_MD])
                examples.append(f"{draft.skill}: {description}")
                ranking = Ranking({**DECOYS, draft.skill: description})
                for request in _requests(left_out, tools):
                    hits[name].append(draft.skill in ranking.best(request, 3))
    together = [hit for found in hits.values() for hit in found]
    return (
        {"retrieval.top3": round(sum(together) / len(together), 4) if together else 0.0},
        {
            "requests": {name: len(found) for name, found in hits.items()},
            "top3": {name: round(sum(found) / len(found), 4) if found else None for name, found in hits.items()},
            "descriptions": sorted(set(examples))[:12],
        },
    )


def _drafts(sessions: Sequence[Session]) -> Iterable[tuple[Draft, tuple[str, list[str]]]]:
    """The best skill of each project with the tools that show its use: the first one, and any of the others."""
    compiler = Compiler(settings=ReflectSettings(proposals=ProposalSettings(limit=1)))
    for project in sorted({session.project for session in sessions}):
        window = Window("benchmark", [session for session in sessions if session.project == project])
        for proposal in compiler.reflect(window, Catalogue()).proposals:
            draft = compiler.write(compiler.specify(proposal, window), Catalogue())
            tools = [node.tool for node in proposal.plan.nodes] if proposal.plan else []
            yield draft, (project, tools)


def _requests(sessions: Sequence[Session], tools: tuple[str, list[str]]) -> list[str]:
    project, names = tools
    found: list[str] = []
    for session in sessions:
        calls = [call for call, _ in session.exchanges() if call.tool in names]
        if session.project == project and len({call.tool for call in calls}) > 1:
            text = request_of(session, calls[0].index)
            if text.strip():
                found.append(text)
    return found


def _stems(text: str) -> list[str]:
    return [stem_of(word) for word in re.findall(r"[a-z0-9]+", text.lower()) if len(word) > 2]


class Ranking:
    """Okapi BM25 over names and descriptions (Robertson and Zaragoza 2009), k1 = 1.2, b = 0.75; no stop words."""

    def __init__(self, descriptions: dict[str, str]) -> None:
        self._words = {name: Counter(_stems(f"{name} {text}")) for name, text in descriptions.items()}
        self._mean = sum(words.total() for words in self._words.values()) / len(self._words)
        self._seen = Counter(word for words in self._words.values() for word in words)

    def best(self, request: str, count: int) -> list[str]:
        """The names that fit a request best, in order; ties by name."""
        asked = set(_stems(request))
        return sorted(self._words, key=lambda name: (-self._score(asked, self._words[name]), name))[:count]

    def _score(self, asked: set[str], words: Counter[str]) -> float:
        length = 1.2 * (0.25 + 0.75 * words.total() / self._mean)
        score = 0.0
        for word in sorted(asked & words.keys()):
            rarity = math.log(1 + (len(self._words) - self._seen[word] + 0.5) / (self._seen[word] + 0.5))
            score += rarity * words[word] * 2.2 / (words[word] + length)
        return score


def figures(quick: bool = False) -> tuple[dict[str, float], dict[str, object]]:
    """Every figure of this module with its detail, for the compiler's benchmark."""
    results, detail = failures(quick)
    found, how = retrieval(quick)
    return {**results, **found}, {
        "failures": detail,
        "retrieval": how,
        "annotated_steps": annotated_steps(),
        "lessons_read": lessons_read(quick),
    }


def _said(cluster: Cluster) -> list[str]:
    """What a cluster teaches, without counts."""
    futile = ["do not repeat it unchanged"] if cluster.futile_repeats else []
    return [advice.change.advice() for advice in cluster.advice] + futile


def lessons_read(quick: bool = False) -> dict[str, object]:
    """Every distinct lesson of the recorded sets and of their halves, against what a person who read it said.

    `right` of `read` is the precision; lessons that nobody has read yet are counted and listed, never assumed right.
    The other recorded sets (ToolBench, SWE-agent, Inspect, Pi, spans, fixtures) give none: nothing recurs in them.
    """
    sets = [
        sessions_of("tau-bench"),
        sessions_of("agentrx"),
        sessions_of("claude-code"),
        sessions_of("general-agentbench"),
    ]
    told: dict[str, str] = {}
    for sessions in sets:
        parts = [sessions, *(half for seed in range(1 if quick else 5) for half in halves(sessions, seed))]
        for part in parts:
            for cluster in clusters(part):
                for said in _said(cluster):
                    text = f"{cluster.operation}: {cluster.signature}: {said}"
                    told[hashlib.sha256(text.encode()).hexdigest()[:12]] = text
    read = {digest: READ[digest] for digest in told if digest in READ}
    return {
        "lessons": len(told),
        "wanted": 50,
        "read": len(read),
        "right": sum(read.values()),
        "wrong": sorted(told[digest][:160] for digest, right in read.items() if not right),
        "unread": {digest: text[:160] for digest, text in sorted(told.items()) if digest not in READ},
    }
