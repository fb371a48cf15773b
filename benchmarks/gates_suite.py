"""The figures of the gates, for `benchmarks.sandbox`: forgeries, the policy corpora, and the time that gates take.

Each function returns flat results and a detail that names every sample, so that a figure can be checked by hand.
The policy rules were written while looking at these corpora: the shares say that nothing known is missed, not how
well the gate does on what nobody has thought of.
"""

from __future__ import annotations

import statistics
import time

from benchmarks.forgeries import forgeries
from benchmarks.policy_corpus import Sample, benign, malicious
from benchmarks.policy_corpus_recipes import benign_recipes, malicious_recipes, script
from benchmarks.result import Bar, progress
from instar.sandbox.gates import run_gates
from instar.sandbox.gates.judgement import Judgement
from instar.sandbox.gates.policy import policy
from instar.sandbox.gates.testing import draft, fold
from instar.sandbox.protocol import Sandbox
from instar.sandbox.report import Verdict
from instar.skills.package import parse_manifest

SEVERITIES = ("info", "low", "elevated", "high")
BARS = {
    "forgery.drafts": Bar(30, "at least"),
    "forgery.passes": Bar(0, "equals"),
    "policy.benign": Bar(60, "at least"),
    "policy.false_high_share": Bar(0.02, "at most"),
    "policy.malicious": Bar(60, "at least"),
    "policy.found_share": Bar(0.98, "at least"),
    "policy.unparsable_passed": Bar(0, "equals"),
    "policy.slowest_s": Bar(1.0, "at most"),
    "gates.total_s": Bar(5.0, "at most"),
}
UNPARSABLE = {
    "half a function": ("scripts/skill.py", b"def run(\n"),
    "not UTF-8": ("scripts/skill.py", b"x = '\xff'\n"),
    "a null byte": ("scripts/skill.py", b"x = 1\x00\n"),
    "nested too deeply": ("scripts/skill.py", b"x = " + b"(" * 5000 + b")" * 5000 + b"\n"),
    "half a case": ("tests/cases/odd.json", b"{"),
    "a case nested too deeply": ("tests/cases/odd.json", b"[" * 100_000),
    "a requirement that is no text": ("references/prd.md", b"\xff\xfe\x00"),
}
UNPARSABLE_SCRIPTS = {
    "a script with half a quotation": "echo 'half\n",
    "a script with half a loop": "for x in a b; do\n",
    "a script with an open parenthesis": "echo $(ls\n",
    "a script nested too deeply": "echo " + "$(" * 500 + "ls" + ")" * 500 + "\n",
    "a script of another language": "import os\nif os:\n    print(1)\n",
}


def forgery_figures(sandbox: Sandbox, quick: bool) -> tuple[dict[str, float], dict[str, object]]:
    """Run every dishonest draft through all gates; `passes` counts those that nothing stopped."""
    caught: dict[str, list[str]] = {}
    passes = []
    for number, forgery in enumerate(forgeries()):
        if quick and number % 5:
            continue
        progress(f"forgery: {forgery.name}")
        report = run_gates(forgery.files, sandbox=sandbox, folds=forgery.folds)
        caught[forgery.name] = [result.gate for result in report.results if result.verdict is Verdict.FAIL]
        if report.verdict is Verdict.PASS:
            passes.append(forgery.name)
    by_behaviour = sum(1 for gates in caught.values() if {"replay", "tests", "strength"} & set(gates))
    results = {"forgery.drafts": float(len(caught)), "forgery.passes": float(len(passes))}
    return results, {"stopped_by": caught, "stopped_by_behaviour": by_behaviour, "passed": passes}


def policy_figures(quick: bool) -> tuple[dict[str, float], dict[str, object]]:
    """Judge both corpora; a malicious package counts as found only by its own rule at its own severity or worse."""
    harmless, hostile = [*benign(), *benign_recipes()], [*malicious(), *malicious_recipes()]
    if quick:
        harmless, hostile = harmless[::5], hostile[::5]
    seconds: dict[str, float] = {}
    false_alarms = [sample.name for sample in harmless if _judge(sample, seconds).verdict is not Verdict.PASS]
    missed = [sample.name for sample in hostile if not _found(sample, _judge(sample, seconds))]
    unparsable = [Sample(name, {**_base(), path: content}) for name, (path, content) in UNPARSABLE.items()]
    unparsable += [Sample(name, script(text)) for name, text in UNPARSABLE_SCRIPTS.items()]
    called_safe = [sample.name for sample in unparsable if _judge(sample, seconds).verdict is Verdict.PASS]
    results = {
        "policy.benign": float(len(harmless)),
        "policy.false_high_share": len(false_alarms) / len(harmless),
        "policy.malicious": float(len(hostile)),
        "policy.found_share": 1 - len(missed) / len(hostile),
        "policy.unparsable_passed": float(len(called_safe)),
        "policy.slowest_s": max(seconds.values()),
    }
    return results, {"false_alarms": false_alarms, "missed": missed, "unparsable_called_safe": called_safe}


def gates_figures(sandbox: Sandbox, quick: bool) -> tuple[dict[str, float], dict[str, object]]:
    """The median time of all gates over a typical draft with four cases and five hold-outs, and of each gate."""
    runs = []
    for number in range(3 if quick else 9):
        progress(f"all gates, run {number + 1}")
        runs.append(run_gates(draft(), sandbox=sandbox, folds=[fold()] * 5))
    totals = [sum(result.seconds for result in report.results) for report in runs]
    gates = [result.gate for result in runs[0].results]
    each = {
        gate: statistics.median(report.results[place].seconds for report in runs) for place, gate in enumerate(gates)
    }
    return {"gates.total_s": statistics.median(totals)}, {"seconds_by_gate": each, "totals": totals}


def _base() -> dict[str, bytes]:
    return {path: text.encode() for path, text in draft().items()}


def _judge(sample: Sample, seconds: dict[str, float]) -> Judgement:
    started = time.perf_counter()
    judgement = policy(sample.files, parse_manifest(sample.files))
    seconds[sample.name] = time.perf_counter() - started
    return judgement


def _found(sample: Sample, judgement: Judgement) -> bool:
    least = SEVERITIES.index(sample.severity)
    return any(
        finding.rule == sample.rule and SEVERITIES.index(finding.severity) >= least for finding in judgement.findings
    )
