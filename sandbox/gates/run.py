"""Run the gates over one draft, in order, and write the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from instar.sandbox.errors import SandboxError
from instar.sandbox.folds import Fold
from instar.sandbox.gates.canary import replays, runs_tests
from instar.sandbox.gates.candidate import Candidate
from instar.sandbox.gates.format import format_package
from instar.sandbox.gates.judgement import Judgement, failed, incomplete
from instar.sandbox.gates.lint import lint
from instar.sandbox.gates.policy import policy, risk_of
from instar.sandbox.gates.regression import regression
from instar.sandbox.gates.replay import replay
from instar.sandbox.gates.shellcheck import PROGRAM, shellcheck_version
from instar.sandbox.gates.strength import strength
from instar.sandbox.gates.tests import tests
from instar.sandbox.protocol import Sandbox
from instar.sandbox.report import Finding, GateReport, GateResult, Verdict
from instar.skills.cases import Case
from instar.skills.errors import CaseRefused, ManifestRefused, PackageRefused
from instar.skills.manifest import Manifest, SkillKind
from instar.skills.package import Package, cases_of, content_digest, parse_manifest

GATES = ("format", "lint", "policy", "replay", "tests", "strength", "regression")
UNPLAYABLE = "a recipe runs the programs of a repository, which no sandbox here holds: nothing can be replayed"
_TOOLS = ("ruff", "bandit", "skills-ref", "pytest", "instar")


def run_gates(
    files: Mapping[str, str | bytes],
    *,
    sandbox: Sandbox,
    folds: Sequence[Fold] = (),
    previous_cases: Sequence[Case] = (),
    libraries: Sequence[Path] = (),
    on_result: Callable[[GateResult], None] | None = None,
) -> GateReport:
    """Judge a draft. Every gate ends in a verdict, whatever the draft holds or does.

    A gate that needs what an earlier one could not read is INCOMPLETE and says so, and so is a gate whose checker or
    sandbox broke. `previous_cases` are those of the version that the draft replaces; `libraries` the folders of its
    pinned wheels, unpacked. `on_result` is called after each gate.
    """
    encoded = {
        path: text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text for path, text in files.items()
    }
    run = _Run(encoded, sandbox, folds, previous_cases, libraries)
    results = []
    for gate in GATES:
        started = time.perf_counter()
        judgement = run.judge(gate)
        seconds = time.perf_counter() - started
        result = GateResult(
            gate=gate,
            verdict=judgement.verdict,
            summary=judgement.summary,
            seconds=seconds,
            findings=list(judgement.findings),
            counts=dict(judgement.counts),
        )
        results.append(result)
        if on_result is not None:
            on_result(result)
    looked_at = next(result for result in results if result.gate == "policy")
    known = run.manifest if looked_at.verdict is not Verdict.INCOMPLETE else None
    return GateReport(
        skill=run.manifest.name if run.manifest is not None else "",
        version=run.manifest.version if run.manifest is not None else "",
        digest=content_digest(encoded),
        results=results,
        risk=risk_of(looked_at.findings, known),
        isolation=run.isolation(),
        tools=_versions(run.manifest),
    )


def _versions(manifest: Manifest | None) -> dict[str, str]:
    """What judged, and in which version; shellcheck only where there were scripts to check."""
    found = {name: metadata.version(name) for name in _TOOLS}
    if manifest is not None and manifest.kind is SkillKind.RECIPE:
        found[PROGRAM] = shellcheck_version() or "missing"
    return found


class _Run:
    """One draft on its way through the gates: what could be read of it, and why the rest could not."""

    def __init__(
        self,
        files: Mapping[str, bytes],
        sandbox: Sandbox,
        folds: Sequence[Fold],
        previous: Sequence[Case],
        libraries: Sequence[Path],
    ) -> None:
        self._sandbox, self._folds, self._previous = sandbox, folds, previous
        self.manifest: Manifest | None = None
        self._package: Package | None = None
        self._candidate: Candidate | None = None
        self._problems: tuple[str, ...] = ()
        self._unread = ""
        try:
            self._package = Package(files)
            self.manifest = parse_manifest(self._package)
            self._candidate = Candidate(self._package, self.manifest, cases_of(self._package), libraries)
        except ManifestRefused as refused:
            self._problems, self._unread = refused.problems, str(refused)
        except (PackageRefused, CaseRefused) as refused:
            self._unread = str(refused)

    def judge(self, gate: str) -> Judgement:
        """One gate's verdict."""
        try:
            return self._judge(gate)
        except SandboxError as error:
            return incomplete(str(error))
        except OSError as error:  # a full disk or a missing folder of this machine says nothing about the draft
            return incomplete(f"this machine could not judge: {error}")

    def isolation(self) -> list[str]:
        """What was really in force."""
        try:
            found = self._sandbox.probe()
        except SandboxError as error:
            return [f"none: {error}"]
        return [found.backend, *found.properties]

    def _judge(self, gate: str) -> Judgement:
        if self._package is None:
            refused = Finding(message=self._unread, rule="limits", severity="high")
            return (
                failed(self._unread, [refused])
                if gate == "format"
                else incomplete(f"the files are no package: {self._unread}")
            )
        if gate == "format":
            return format_package(self._package, self.manifest, self._problems)
        if gate == "lint":
            return lint(self._package, self.manifest.kind if self.manifest is not None else SkillKind.PROGRAM)
        judgement: Judgement | None = None
        if gate == "policy" and self.manifest is not None:
            judgement = policy(self._package, self.manifest)
        elif self.manifest is not None and self.manifest.kind is SkillKind.RECIPE:
            judgement = incomplete(UNPLAYABLE)
        elif self._candidate is not None:
            judgement = self._judge_behaviour(gate, self._candidate)
            if judgement is not None and judgement.verdict is Verdict.FAIL:
                sound = runs_tests if gate == "tests" else replays
                if not sound(self._sandbox):
                    return incomplete("the sandbox does not run a harmless sample either", judgement.findings)
        return judgement or incomplete(f"needs what could not be read: {self._unread}")

    def _judge_behaviour(self, gate: str, candidate: Candidate) -> Judgement | None:
        """The gates that run the draft."""
        if gate == "replay":
            return replay(candidate, self._folds, self._sandbox)
        if gate == "tests":
            return tests(candidate, self._sandbox)
        if gate == "strength":
            return strength(candidate, self._sandbox)
        if gate == "regression":
            return regression(candidate, self._previous, self._sandbox)
        return None
