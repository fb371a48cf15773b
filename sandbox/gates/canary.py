"""A harmless package that every sound sandbox runs: when it does not come through, the instrument is broken.

Without it, a sandbox that starts nothing any more would reject every draft.
"""

from __future__ import annotations

from instar.sandbox.gates.candidate import Candidate, read_candidate
from instar.sandbox.gates.play import Outcome, Turn, play
from instar.sandbox.gates.tests import tests
from instar.sandbox.protocol import Sandbox
from instar.sandbox.report import Verdict
from instar.skills.cases import Case, RecordedCall
from instar.skills.manifest import GrantedTool, Manifest
from instar.skills.package import MANIFEST, SKILL_PY, TEST_PY, Package, canonical_json, seal
from instar.skills.test_template import TEST_SKILL

_CODE = 'def run(tools, *, n):\n    return tools.call("double", {"n": n})\n'
_CASE = Case(
    name="one", arguments={"n": 1}, calls=[RecordedCall(tool="double", arguments={"n": 1}, result=2)], returns=2
)


def replays(sandbox: Sandbox) -> bool:
    """Whether a case of the harmless package is exact."""
    candidate = _canary()
    return play(sandbox, Turn(candidate.files, candidate.grants, _CASE)).outcome is Outcome.EXACT


def runs_tests(sandbox: Sandbox) -> bool:
    """Whether the tests of the harmless package pass."""
    return tests(_canary(), sandbox).verdict is Verdict.PASS


def _canary() -> Candidate:
    manifest = Manifest(
        name="canary",
        version="0.1.0",
        input_schema={},
        output_schema={},
        tools=[GrantedTool(name="double", why="is asked", effect="read")],
        confidence=1,
        lineage="canary",
        files={},
    )
    case = canonical_json(_CASE.model_dump(mode="json"))
    files = seal({SKILL_PY: _CODE, TEST_PY: TEST_SKILL, "tests/cases/one.json": case, MANIFEST: ""}, manifest)
    return read_candidate(Package(files))
