"""Recipes and guards: their own rules, their own shape, and what can be said of them."""

import time
from contextlib import suppress

import pytest

from benchmarks.gates_suite import UNPARSABLE_SCRIPTS
from benchmarks.policy_corpus import encode
from benchmarks.policy_corpus_recipes import program, script, shown
from instar.sandbox.gates import run_gates
from instar.sandbox.gates.lint import lint
from instar.sandbox.gates.policy import policy, risk_of
from instar.sandbox.gates.recipes import command_blocks
from instar.sandbox.gates.run import UNPLAYABLE
from instar.sandbox.gates.shellcheck import shellcheck_version
from instar.sandbox.gates.shellrules import review_shell
from instar.sandbox.gates.shellwords import ShellSyntaxError
from instar.sandbox.gates.testing import fold, guard, recipe, tool, with_files
from instar.sandbox.report import Verdict
from instar.skills.cases import Case
from instar.skills.manifest import SkillKind
from instar.skills.package import Package, parse_manifest


def judge(files):
    return policy(files, parse_manifest(files))


def parse_case(name, given, wanted):
    return Case(name=name, arguments={"order_id": given}, calls=[], returns={"order_id": wanted})


def verdicts(report):
    return {result.gate: result.verdict for result in report.results}


def test_every_command_is_listed_for_the_reviewer_with_its_line():
    found = judge(script("set -e\nruff check . && pytest -q\nif true; then\n  make docs\nfi\n")).findings
    listed = {finding.message: finding.line for finding in found if finding.rule == "command"}
    assert listed == {
        "runs: set -e": 1,
        "runs: ruff check .": 2,
        "runs: pytest -q": 2,
        "runs: true": 3,
        "runs: make docs": 4,
        "runs: sh scripts/check.sh": 15,
    }


def test_commands_of_a_python_script_are_listed_too():
    found = judge(program('import subprocess\n\nsubprocess.run(["make", "docs"], check=True)\n')).findings
    assert [finding.message for finding in found if finding.rule == "command"] == [
        "runs: sh scripts/check.sh",
        "runs: make docs",
    ]


def test_commands_that_the_instructions_show_count_like_those_of_a_script():
    judgement = judge(shown("$ make docs\n$ sudo make install"))
    assert "runs: make docs" in {finding.message for finding in judgement.findings}
    assert judgement.verdict is Verdict.FAIL


def test_only_blocks_of_commands_are_read_as_such():
    text = "a\n```python\nx = 1\n```\n```sh\n$ make\n```\n~~~bash\nls\n~~~\n```\nno\n```\n"
    assert list(command_blocks(text)) == [(6, "make"), (9, "ls")]


def test_a_recipe_is_never_of_low_risk():
    files = encode(recipe())
    assert risk_of(judge(files).findings, parse_manifest(files)) == "elevated"


def test_a_network_program_needs_a_grant_of_its_name():
    text = "curl -fsS http://localhost:8080/health\n"
    assert judge(script(text)).verdict is Verdict.FAIL
    assert judge(script(text, tools=[tool("wget")])).verdict is Verdict.FAIL
    assert judge(script(text, tools=[tool("curl")])).verdict is Verdict.PASS


@pytest.mark.parametrize("name", UNPARSABLE_SCRIPTS)
def test_a_script_that_cannot_be_read_is_incomplete_and_never_safe(name):
    judgement = judge(script(UNPARSABLE_SCRIPTS[name]))
    assert judgement.verdict is Verdict.INCOMPLETE
    assert "check.sh" in judgement.summary


def test_without_shellcheck_the_verdict_is_incomplete_and_names_the_remedy(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    judgement = judge(encode(recipe()))
    assert judgement.verdict is Verdict.INCOMPLETE
    assert "instar[shell]" in judgement.summary


def test_without_shellcheck_what_is_forbidden_is_still_rejected(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    assert judge(script("sudo id\n")).verdict is Verdict.FAIL


def test_a_broken_shellcheck_says_nothing_about_the_recipe(monkeypatch, tmp_path):
    broken = tmp_path / "shellcheck"
    broken.write_text("#!/bin/sh\necho nonsense\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    judgement = judge(encode(recipe()))
    assert judgement.verdict is Verdict.INCOMPLETE
    assert "unreadable" in judgement.summary


def test_a_settings_file_in_the_package_does_not_reach_shellcheck():
    files = script("for file in $1; do\n  cat $file\ndone\n") | {"references/.shellcheckrc": b"disable=all\n"}
    assert "unquoted" in {finding.rule for finding in judge(files).findings}


def test_a_hostile_script_of_the_largest_size_is_read_in_a_bounded_time():
    size = 60_000
    for text in (
        "echo " + "{," * (size // 2),
        "echo " + "$(" * (size // 2),
        "echo " + '"${x:-' * (size // 6),
        "echo " + "`" * size,
        "x=1;" * (size // 4),
        "".join(f"v{number}=1\n" for number in range(size // 8)),
        "a|" * (size // 2),
        "cat " + "<<E " * (size // 4),
        "((" * (size // 2),
        "case x in " * (size // 10),
        "[[ " * (size // 3),
        "echo " + "\\" * size,
        "sed " + "s/" * (size // 2),
        "env " * (size // 4),
        "bash -c '" * (size // 9),
    ):
        started = time.process_time()
        with suppress(ShellSyntaxError, RecursionError):
            list(review_shell("scripts/check.sh", text, granted=frozenset()))
        assert time.process_time() - started < 3.0, text[:40]


def test_a_guard_passes_every_gate(sandbox):
    held_out = fold(guard(), cases=[parse_case("late", "W9", "#W9")])
    report = run_gates(guard(), sandbox=sandbox, folds=[held_out])
    assert report.verdict is Verdict.PASS, report
    assert report.risk == "low"


def test_a_guard_that_does_not_do_what_its_cases_say_fails(sandbox):
    wrong = 'def run(tools, *, order_id: str) -> dict:\n    """Return it."""\n    return {"order_id": order_id}\n'
    assert verdicts(run_gates(guard(wrong), sandbox=sandbox))["replay"] is Verdict.FAIL


def test_a_recipe_is_judged_as_far_as_it_can_be_and_never_counted_as_rejected(sandbox):
    report = run_gates(recipe(), sandbox=sandbox)
    found = verdicts(report)
    assert {gate for gate, verdict in found.items() if verdict is Verdict.PASS} == {"format", "lint", "policy"}
    assert report.verdict is Verdict.INCOMPLETE
    assert {result.summary for result in report.results if result.verdict is Verdict.INCOMPLETE} == {UNPLAYABLE}
    assert report.tools["shellcheck"] == shellcheck_version() != ""


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"scripts/check.sh": None, "assets/note.txt": "x"}, "required-file"),
        ({"scripts/skill.py": "x = 1\n"}, "unexpected-file"),
        ({"tests/test_skill.py": "x = 1\n"}, "unexpected-file"),
        ({"scripts/Check All.sh": "true\n"}, "limits"),
        ({"scripts/deeper/check.sh": "true\n"}, "unexpected-file"),
    ],
)
def test_a_recipe_of_another_shape_fails(sandbox, changes, rule):
    allowed = all(" " not in path for path in changes)
    files = with_files(recipe(), changes) if allowed else {**recipe(), **changes}
    result = run_gates(files, sandbox=sandbox).results[0]
    assert result.verdict is Verdict.FAIL
    assert rule in {finding.rule for finding in result.findings}


def test_a_program_may_hold_no_shell_script(sandbox):
    files = with_files(guard(), {"scripts/check.sh": "true\n"})
    assert verdicts(run_gates(files, sandbox=sandbox))["format"] is Verdict.FAIL


def test_lint_lets_a_recipe_run_programs_and_print_but_no_program_of_ours():
    text = 'import subprocess\n\nprint(subprocess.run(["make"], check=True))\n'
    files = Package(recipe({"scripts/check.py": text}))
    assert lint(files, SkillKind.RECIPE).verdict is Verdict.PASS
    assert lint(files, SkillKind.PROGRAM).verdict is Verdict.FAIL
