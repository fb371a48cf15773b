"""The `tests` gate: every expected node of the package's pytest ran once and passed, and would have failed if wrong.

The package's code runs in the same process as the reporter inside the sandbox, so a report alone proves nothing.
Three things on the trusted side do: the expected node ids, known from syntax; a second run over cases whose
expectations were changed, in which every case must fail, so that tests which pass whatever happens are found; and the
`replay` gate, which compares the same cases where no code of the draft runs.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import ClassVar

from pydantic import JsonValue

from instar.sandbox.broker import Broker, BrokerLimits
from instar.sandbox.errors import ToolError
from instar.sandbox.gates.candidate import Candidate
from instar.sandbox.gates.errors import ShapeRefused
from instar.sandbox.gates.judgement import Judgement, failed, passed
from instar.sandbox.gates.shape import expected_nodes
from instar.sandbox.protocol import Job, JobResult, Limits, Returned, Sandbox
from instar.sandbox.report import Finding
from instar.skills.manifest import GrantedTool
from instar.skills.package import canonical_json

PYTEST_LIMITS = Limits(wall_seconds=30.0, cpu_seconds=30)
_PHASES = ("setup", "call", "teardown")
_TOOLS = ("collected", "broken", "phase", "finished")
_INI = b"[pytest]\naddopts =\npython_files = test_skill.py\nfilterwarnings = default\n"
_ARGUMENTS = (
    "-c", "/work/pytest.ini", "--rootdir=/work/package", "--noconftest", "--import-mode=importlib",
    "-p", "no:cacheprovider", "-p", "no:terminal", "--capture=sys", "/work/package/tests/test_skill.py",
)  # fmt: skip


@dataclass(slots=True)
class _Report:
    """What one run said, as far as it carried the token."""

    instant: ClassVar[bool] = True
    token: str
    collected: list[str] | None = None
    broken: list[str] = field(default_factory=list)
    phases: list[tuple[str, str, str, str]] = field(default_factory=list)
    """Node, phase, outcome, message."""
    finished: list[int] = field(default_factory=list)
    forged: int = 0

    def answer(self, tool: str, arguments: Mapping[str, JsonValue]) -> JsonValue:
        """Take one message of the reporter."""
        if arguments.get("token") != self.token:
            self.forged += 1
            raise ToolError("no")
        match tool, dict(arguments):
            case "collected", {"nodes": list(nodes)} if self.collected is None:
                self.collected = [str(node) for node in nodes]
            case "broken", {"node": str(), "message": str(message)}:
                self.broken.append(message)
            case "phase", {"node": str(node), "when": str(when), "outcome": str(outcome), "message": str(message)}:
                self.phases.append((node, when, outcome, message))
            case "finished", {"code": int(code)}:
                self.finished.append(code)
            case _:
                self.forged += 1
                raise ToolError("no")
        return None


def tests(candidate: Candidate, sandbox: Sandbox, limits: Limits = PYTEST_LIMITS) -> Judgement:
    """Judge the package's tests.

    Raises:
        SandboxUnavailable, SandboxFailed, InvalidJob: nothing is known about the draft.
    """
    try:
        expected = expected_nodes(candidate.files)
    except ShapeRefused as refused:
        return failed(f"the tests are not of the expected shape: {refused}", [refused.finding])
    report, job = _run(sandbox, candidate, candidate.files, len(expected), limits)
    findings = [*_broken_run(report, job), *_nodes(report, expected)]
    passed_nodes = sum(1 for _, when, outcome, _ in report.phases if when == "call" and outcome == "passed")
    counts = {"expected": len(expected), "passed": min(passed_nodes, len(expected))}
    if findings:
        return failed(findings[0].message, findings, counts)
    control, control_job = _run(sandbox, candidate, _with_other_expectations(candidate), len(expected), limits)
    cases = [node for node in expected if "::test_case[" in node]
    findings = [*_broken_run(control, control_job, code=1), *_undisturbed(control, cases)]
    if findings:
        return failed(f"the tests do not notice a wrong expectation: {findings[0].message}", findings, counts)
    return passed(
        f"{len(expected)} tests ran and passed; each case fails when its expectation is changed", counts=counts
    )


def altered(value: JsonValue) -> JsonValue:
    """Another value of the same make: one leaf is different."""
    changed: JsonValue
    match value:
        case bool():
            changed = not value
        case int() | float():
            changed = 0 if value else 1
        case str():
            changed = value + "x"
        case [*items, last]:
            changed = [*items, altered(last)]
        case dict() if value:
            key = max(value)
            changed = {**value, key: altered(value[key])}
        case _:
            changed = [None] if value == [] else 0
    return changed


def _run(
    sandbox: Sandbox, candidate: Candidate, package: Mapping[str, bytes], nodes: int, limits: Limits
) -> tuple[_Report, JobResult]:
    report = _Report(secrets.token_hex(16))
    grants = {name: GrantedTool(name=name, why="reports to the gate", effect="read") for name in _TOOLS}
    opening: dict[str, JsonValue] = {"token": report.token, "arguments": list(_ARGUMENTS)}
    inside = resources.files("instar.sandbox.inside").joinpath("tests.py").read_bytes()
    job = Job(
        files={"tests.py": inside, "pytest.ini": _INI, **{f"package/{path}": data for path, data in package.items()}},
        argv=("python", "/work/tests.py"),
        limits=limits,
        broker=Broker(grants, report, BrokerLimits(calls=nodes * len(_PHASES) + 20), opening),
        toolkits=("pytest",),
        libraries=candidate.libraries,
        environment={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    return report, sandbox.run(job)


def _with_other_expectations(candidate: Candidate) -> dict[str, bytes]:
    changed = dict(candidate.files)
    for path, case in candidate.cases.items():
        update = {"raises": case.raises + "x"} if case.raises is not None else {"returns": altered(case.returns)}
        changed[path] = canonical_json(case.model_copy(update=update).model_dump(mode="json")).encode()
    return changed


def _broken_run(report: _Report, job: JobResult, code: int = 0) -> list[Finding]:
    """What is wrong with the run as such."""
    problems = []
    if report.forged or job.violations:
        problems.append("something other than the reporter spoke to the gate")
    if not job.succeeded:
        problems.append(f"the run ended by {job.ending}: {job.reason}".rstrip(": "))
    elif job.final != Returned(None) or report.finished != [code]:
        problems.append("the run ended before the tests did")
    problems += [f"the tests could not be collected: {message[-300:]}" for message in report.broken]
    return [_finding(problem, "run") for problem in problems]


def _nodes(report: _Report, expected: Sequence[str]) -> list[Finding]:
    """Every expected node exactly once in every phase, all passed, and nothing else."""
    problems = []
    if sorted(report.collected or []) != sorted(expected):
        missing = sorted(set(expected) - set(report.collected or []))
        extra = sorted(set(report.collected or []) - set(expected))
        problems.append(f"collected other tests than expected: missing {missing[:3]}, extra {extra[:3]}"[:300])
    ran = Counter((node, when) for node, when, _, _ in report.phases)
    for node in expected:
        for when in _PHASES:
            if ran[node, when] != 1:
                problems.append(f"{node} reported {when} {ran[node, when]} times")
    problems += [f"{node} is not expected" for node in sorted({node for node, _ in ran} - set(expected))]
    problems += [
        f"{node} {outcome} in {when}: {message[-300:]}"
        for node, when, outcome, message in report.phases
        if outcome != "passed"
    ]
    return [_finding(problem, "node") for problem in problems[:50]]


def _undisturbed(control: _Report, cases: Sequence[str]) -> list[Finding]:
    """Cases that did not fail although what they expect was changed."""
    disturbed = {node for node, when, outcome, _ in control.phases if when == "call" and outcome == "failed"}
    return [
        _finding(f"{node} passes with a changed expectation", "control") for node in cases if node not in disturbed
    ]


def _finding(message: str, rule: str) -> Finding:
    return Finding(message=message, file="tests/test_skill.py", rule=f"tests-{rule}", severity="high")
