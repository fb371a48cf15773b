import errno
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.forgeries import forgeries
from instar.sandbox.errors import SandboxFailed
from instar.sandbox.gates import GATES, run_gates
from instar.sandbox.gates.testing import CASES, CODE, draft, fold, with_files
from instar.sandbox.protocol import Ending, Isolation, Job, JobResult, Sandbox
from instar.sandbox.report import GateReport, GateResult, Verdict
from instar.skills.package import MANIFEST, digest


class BrokenSandbox:
    name = "broken"

    def probe(self) -> Isolation:
        raise SandboxFailed("broken", "no probe")

    def run(self, job: Job) -> JobResult:
        raise SandboxFailed("broken", "the daemon is gone")


def verdicts(report: GateReport) -> dict[str, str]:
    return {result.gate: result.verdict.value for result in report.results}


def test_a_sound_draft_passes_every_gate_in_order_and_the_report_says_so(sandbox):
    seen: list[GateResult] = []
    files = draft()
    report = run_gates(files, sandbox=sandbox, folds=[fold()], on_result=seen.append)
    assert report.verdict is Verdict.PASS, report
    assert tuple(result.gate for result in report.results) == GATES
    assert seen == report.results
    assert (report.skill, report.version, report.risk) == ("user-with-orders", "0.1.0", "low")
    assert report.digest == digest(files)
    assert report.isolation[0] == "bubblewrap"
    assert len(report.isolation) > 3
    assert report.tools["ruff"]
    assert GateReport.model_validate_json(report.model_dump_json()) == report


def test_the_same_draft_gets_the_same_verdicts_and_findings(sandbox):
    bad = draft(CODE.replace('!= "delivered"', '== "delivered"'))
    one, two = (run_gates(bad, sandbox=sandbox, folds=[fold()]) for _ in range(2))

    def told(report: GateReport) -> object:
        return report.model_copy(update={"results": [r.model_copy(update={"seconds": 0.0}) for r in report.results]})

    assert one.verdict is Verdict.FAIL
    assert told(one) == told(two)


@pytest.mark.parametrize("files", [{}, {"../x": "y"}, {"a": "\ud800"}, {f"f{n}.txt": "" for n in range(70)}])
def test_files_that_are_no_package_fail_format_and_leave_the_rest_incomplete(sandbox, files):
    report = run_gates(files, sandbox=sandbox)
    assert verdicts(report)["format"] == "fail"
    assert {verdict for gate, verdict in verdicts(report).items() if gate not in ("format", "lint")} == {"incomplete"}
    assert report.verdict is Verdict.FAIL
    assert report.risk == "high"


def test_a_manifest_that_cannot_be_read_makes_later_gates_incomplete_with_that_reason(sandbox):
    report = run_gates(draft() | {MANIFEST: "{"}, sandbox=sandbox)
    assert verdicts(report) | {"strength": "incomplete", "regression": "incomplete"} == {
        "format": "fail", "lint": "pass", "policy": "incomplete", "replay": "incomplete", "tests": "incomplete",
        "strength": "incomplete", "regression": "incomplete",
    }  # fmt: skip
    assert "manifest.json" in report.results[-1].summary


def test_a_case_that_cannot_be_read_still_lets_policy_judge(sandbox):
    report = run_gates(with_files(draft(), {"tests/cases/bad.json": json.dumps({"name": "x"})}), sandbox=sandbox)
    assert verdicts(report)["format"] == "fail"
    assert verdicts(report)["policy"] == "pass"
    assert verdicts(report)["replay"] == "incomplete"


def test_a_broken_sandbox_leaves_a_draft_incomplete_and_never_rejected():
    report = run_gates(draft(), sandbox=BrokenSandbox(), folds=[fold()])
    assert report.verdict is Verdict.INCOMPLETE
    assert "the daemon is gone" in report.results[3].summary
    assert report.isolation[0].startswith("none")


class FullDisk(BrokenSandbox):
    def run(self, job: Job) -> JobResult:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_leaves_a_draft_incomplete():
    report = run_gates(draft(), sandbox=FullDisk(), folds=[fold()])
    assert report.verdict is Verdict.INCOMPLETE
    assert "No space left" in report.results[3].summary


class DeadSandbox:
    """Starts, and runs nothing: every job just ends."""

    name = "dead"

    def probe(self) -> Isolation:
        return Isolation("dead", ("nothing",))

    def run(self, job: Job) -> JobResult:
        return JobResult(Ending.EXITED, 1, None, b"", b"", 0.0)


def test_a_sandbox_that_runs_nothing_any_more_rejects_no_draft():
    report = run_gates(draft(), sandbox=DeadSandbox(), folds=[fold()])
    assert report.verdict is Verdict.INCOMPLETE
    assert "harmless sample" in report.results[3].summary


def test_code_that_does_not_parse_fails_and_is_never_called_safe(sandbox):
    report = run_gates(draft("def run(\n"), sandbox=sandbox)
    found = verdicts(report)
    assert (found["lint"], found["policy"], found["replay"], found["tests"]) == ("fail", "incomplete", "fail", "fail")
    assert report.risk == "high"


@pytest.fixture
def library() -> Iterator[Path]:
    """A folder that a job may read although it runs under another account."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "greet.py").write_text("def number(value):\n    return value\n")
        yield folder


def test_a_pinned_dependency_is_there_in_every_gate_that_runs_the_draft(sandbox, library):
    code = CODE.replace("annotations\n", "annotations\n\nimport greet\n", 1).replace(
        '"open": open_orders(orders)', '"open": greet.number(open_orders(orders))'
    )
    files = draft(code, dependencies=[{"name": "greet", "version": "1.0", "sha256": ["0" * 64]}])
    report = run_gates(files, sandbox=sandbox, folds=[fold(files)], previous_cases=CASES, libraries=[library])
    assert report.verdict is Verdict.PASS, report
    assert report.risk == "elevated"
    without = run_gates(files, sandbox=sandbox)
    assert without.verdict is Verdict.FAIL


SUBTLE = (
    "does nothing and expects nothing", "waits for a day", "looks at who answers",
    "calls for show and answers by heart",
    "brings a report", "recognises its own cases", "silences the linter",
)  # fmt: skip


@pytest.mark.parametrize(
    "forgery", [found for found in forgeries() if found.name in SUBTLE], ids=lambda found: found.name
)
def test_a_subtle_forgery_is_stopped(sandbox, forgery):
    report = run_gates(forgery.files, sandbox=sandbox, folds=forgery.folds)
    assert report.verdict is Verdict.FAIL


def test_there_are_at_least_thirty_forgeries_of_distinct_names():
    names = [forgery.name for forgery in forgeries()]
    assert len(set(names)) == len(names) >= 30
    assert set(SUBTLE) <= set(names)


class Counting:
    """A sandbox that counts its jobs."""

    def __init__(self, real: Sandbox) -> None:
        self._real, self.jobs = real, 0

    @property
    def name(self) -> str:
        return self._real.name

    def probe(self) -> Isolation:
        return self._real.probe()

    def run(self, job: Job) -> JobResult:
        self.jobs += 1
        return self._real.run(job)


def test_all_gates_of_a_typical_draft_need_few_enough_jobs_for_five_seconds(sandbox):
    counting = Counting(sandbox)
    report = run_gates(draft(), sandbox=counting, folds=[fold()] * 5)
    assert report.verdict is Verdict.PASS
    assert counting.jobs <= 40, "at 40 ms for most of them"
    assert all(result.seconds > 0 for result in report.results)
