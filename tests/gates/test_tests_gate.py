import pytest

from benchmarks.forgeries import IN_PROCESS, WRONG, knows_its_cases
from instar.sandbox.gates.candidate import read_candidate
from instar.sandbox.gates.judgement import Judgement
from instar.sandbox.gates.replay import replay
from instar.sandbox.gates.shape import expected_nodes
from instar.sandbox.gates.testing import CASES, draft, with_files
from instar.sandbox.gates.tests import altered
from instar.sandbox.gates.tests import tests as run_tests
from instar.sandbox.protocol import Limits
from instar.sandbox.report import Verdict
from instar.skills.package import Package
from instar.skills.test_template import TEST_SKILL


def judge(sandbox, files: dict[str, str], limits: Limits = Limits(wall_seconds=5.0)) -> Judgement:  # noqa: B008 — immutable
    return run_tests(read_candidate(Package(files)), sandbox, limits)


def test_every_case_is_one_node_and_further_tests_follow():
    files = with_files(draft(), {"tests/test_skill.py": TEST_SKILL + "\n\ndef test_more():\n    assert skill\n"})
    assert expected_nodes(Package(files)) == (
        "tests/test_skill.py::test_case[limited]",
        "tests/test_skill.py::test_case[no-order]",
        "tests/test_skill.py::test_case[two-orders]",
        "tests/test_skill.py::test_case[unknown-user]",
        "tests/test_skill.py::test_more",
    )


def test_a_sound_package_passes_with_all_its_nodes(sandbox):
    files = with_files(
        draft(), {"tests/test_skill.py": TEST_SKILL + "\n\ndef test_more():\n    assert skill.open_orders([]) == 0\n"}
    )
    judgement = judge(sandbox, files)
    assert judgement.verdict is Verdict.PASS, judgement.findings
    assert dict(judgement.counts) == {"expected": 5, "passed": 5}


def test_a_failing_test_fails_with_its_words(sandbox):
    judgement = judge(sandbox, draft(WRONG))
    assert judgement.verdict is Verdict.FAIL
    assert any("test_case[two-orders] failed in call" in finding.message for finding in judgement.findings)
    assert judgement.counts["passed"] == 1, "only the case that expects an error still passes"


def test_a_further_test_that_fails_fails_the_gate(sandbox):
    files = with_files(
        draft(), {"tests/test_skill.py": TEST_SKILL + "\n\ndef test_more():\n    assert skill.open_orders([]) == 1\n"}
    )
    assert judge(sandbox, files).verdict is Verdict.FAIL


def test_tests_of_another_shape_fail_without_being_run(sandbox):
    judgement = judge(sandbox, with_files(draft(), {"tests/test_skill.py": "def test_all():\n    assert True\n"}))
    assert judgement.verdict is Verdict.FAIL
    assert "shape" in judgement.summary


@pytest.mark.parametrize("trick", IN_PROCESS)
def test_a_draft_that_forges_its_tests_fails(sandbox, no_process_left, trick):
    judgement = judge(sandbox, draft(IN_PROCESS[trick], notice=False))
    assert judgement.verdict is Verdict.FAIL, judgement
    assert judgement.findings


def test_a_forger_that_recognises_its_own_cases_still_fails_replay(sandbox):
    files = knows_its_cases()
    assert judge(sandbox, files).verdict is Verdict.PASS, "inside its own interpreter such a draft can lie"
    assert replay(read_candidate(Package(files)), (), sandbox).verdict is Verdict.FAIL, "which is why replay decides"


@pytest.mark.parametrize(
    "name", ["conftest.py", "tests/conftest.py", "pytest.ini", "tests/pytest.ini", "setup.cfg", "tox.ini"]
)
def test_configuration_in_the_draft_is_not_read(sandbox, name):
    text = (
        "import os\nos._exit(0)\n"
        if name.endswith(".py")
        else "[pytest]\naddopts = --collect-only\n[tool:pytest]\naddopts = --collect-only\n"
    )
    assert judge(sandbox, with_files(draft(), {name: text})).verdict is Verdict.PASS


@pytest.mark.parametrize(
    "value",
    [0, 1, -1, 1.5, 0.0, 1e308, True, False, None, "", "x", [], {}, [1], {"a": []}, {"a": {"b": None}}, [[], ""]],
)
def test_an_altered_value_is_another_value(value):
    import json

    assert json.dumps(altered(value)) != json.dumps(value)


def test_the_sample_has_a_case_for_every_kind_of_end():
    assert {case.raises is None for case in CASES} == {True, False}
