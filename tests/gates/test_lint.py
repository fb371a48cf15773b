import pytest

from instar.sandbox.gates.commands import run_checker
from instar.sandbox.gates.errors import ToolBroke
from instar.sandbox.gates.lint import lint
from instar.sandbox.gates.testing import CODE, draft, with_files
from instar.sandbox.report import Verdict
from instar.skills.package import Package


def judge(code: str = CODE, **changes: str):
    return lint(Package(draft(code)))


def test_clean_code_passes():
    assert judge().verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("F401", CODE.replace("annotations\n", "annotations\n\nimport json\n", 1)),
        ("I001", CODE.replace("annotations\n", "annotations\n\nimport re\nimport json\n\nX = (json, re)\n", 1)),
        ("S307", CODE.replace("    return sum", '    eval("1")\n    return sum')),
        ("T201", CODE.replace("    return sum", '    print("x")\n    return sum')),
        ("A002", CODE.replace("def open_orders(orders: list)", "def open_orders(orders: list, id: int = 0)")),
        ("format", CODE.replace("user_id: str", "user_id : str")),
        ("invalid-syntax", CODE + "\ndef broken(\n"),
    ],
)
def test_a_violation_fails_with_its_rule_and_line(rule, code):
    judgement = judge(code)
    assert judgement.verdict is Verdict.FAIL
    found = [
        finding
        for finding in judgement.findings
        if finding.rule in (rule, "unformatted" if rule == "format" else rule)
    ]
    assert found, judgement.findings
    assert found[0].file == "scripts/skill.py"
    assert found[0].line > 0


@pytest.mark.parametrize(
    "comment",
    ["# noqa", "#noqa: F401", "# ruff: noqa", "# ruff:noqa: F401", "# flake8: noqa", "# fmt: off", "# fmt: skip",
     "# nosec", "# isort: skip_file", "# NOQA", "# yapf: disable", "# pylint: disable=all", "# ruff: disable[F401]"],
)  # fmt: skip
def test_a_comment_that_silences_a_checker_fails_even_where_nothing_is_wrong(comment):
    judgement = judge(CODE.replace("annotations\n", f"annotations  {comment}\n", 1))
    assert "silencer" in {finding.rule for finding in judgement.findings}


def test_the_word_noqa_in_a_text_silences_nothing_and_passes():
    assert judge(CODE.replace('!= "delivered"', '!= "noqa: delivered"')).verdict is Verdict.PASS


@pytest.mark.parametrize("path", ["ruff.toml", ".ruff.toml", "pyproject.toml", "scripts/ruff.toml"])
def test_a_configuration_in_the_draft_changes_nothing(path):
    bad = CODE.replace("annotations\n", "annotations\n\nimport json\n", 1)
    files = {file: text.encode() for file, text in draft(bad).items()}
    settings = (
        b"[lint]\nignore = ['ALL']\nselect = []\n" if "pyproject" not in path else b"[tool.ruff.lint]\nselect = []\n"
    )
    judgement = lint({**files, path: settings})
    assert judgement.verdict is Verdict.FAIL
    assert "F401" in {finding.rule for finding in judgement.findings}


def test_a_second_python_file_is_looked_at_as_well():
    judgement = lint(Package(with_files(draft(), {"scripts/more.py": "import os\n"})))
    assert ("scripts/more.py", "F401") in {(finding.file, finding.rule) for finding in judgement.findings}


def test_deeply_nested_code_is_never_passed():
    for code in ("x = " + "(" * 3000 + ")" * 3000 + "\n", "x = " + "-" * 50_000 + "1\n", "\x00", "x = '\ud7ff"):
        try:
            assert judge(code).verdict is Verdict.FAIL
        except ToolBroke as broke:
            assert "ruff" in broke.tool


def test_a_checker_that_is_missing_hangs_or_fails_is_no_verdict(tmp_path):
    with pytest.raises(ToolBroke, match="no answer"):
        run_checker("sleep", ["/bin/sleep", "5"], tmp_path, seconds=0.2)
    with pytest.raises(ToolBroke, match="No such file"):
        run_checker("nothing", ["/nonexistent/tool"], tmp_path, seconds=1)
    with pytest.raises(ToolBroke, match="exit code 3"):
        run_checker("sh", ["/bin/sh", "-c", "exit 3"], tmp_path, seconds=5)
    with pytest.raises(ToolBroke, match="bytes of output"):
        run_checker("sh", ["/bin/sh", "-c", "/usr/bin/head -c 9000000 /dev/zero"], tmp_path, seconds=5)
