import pytest

from instar.sandbox.gates.errors import ToolBroke
from instar.sandbox.gates.format import format_package
from instar.sandbox.gates.judgement import Judgement
from instar.sandbox.gates.testing import CASES, CODE, INPUT, NAME, TOOLS, draft, tool, with_files
from instar.sandbox.report import Verdict
from instar.skills.errors import ManifestRefused
from instar.skills.package import MANIFEST, Package, parse_manifest
from instar.skills.test_template import TEST_SKILL


def judge(files: dict[str, str] | dict[str, bytes]) -> Judgement:
    package = Package(files)
    try:
        return format_package(package, parse_manifest(package))
    except ManifestRefused as refused:
        return format_package(package, None, refused.problems)


def rules(judgement: Judgement) -> set[str]:
    return {finding.rule for finding in judgement.findings if finding.severity == "high"}


def skill_md(front: str = "", body: str = "# Title\n") -> str:
    usual = f"name: {NAME}\ndescription: Fetch a user with their orders.\n"
    return f"---\n{front or usual}---\n\n{body}"


def test_a_package_as_the_compiler_writes_it_passes():
    judgement = judge(draft())
    assert judgement.verdict is Verdict.PASS
    assert not judgement.findings


@pytest.mark.parametrize("path", ["SKILL.md", "scripts/skill.py", "tests/test_skill.py", "references/prd.md"])
def test_a_required_file_that_is_missing_fails(path):
    assert "required-file" in rules(judge(with_files(draft(), {path: None})))


def test_a_package_without_cases_fails():
    assert "required-file" in rules(judge(draft(cases=())))


@pytest.mark.parametrize(
    "path",
    [
        "conftest.py", "tests/conftest.py", "pytest.ini", "pyproject.toml", "setup.cfg", "tox.ini", "ruff.toml",
        "scripts/helper.py", "scripts/json.py", "sitecustomize.py", "tests/__init__.py", "tests/test_more.py",
        "scripts/skill.so", "scripts/skill.pyc", "assets/tool.sh", "assets/run.exe", "assets/lib.whl", "Makefile",
        "tests/cases/UPPER.json", "tests/cases/a.b.json", "tests/cases/sub/x.json",
    ],
)  # fmt: skip
def test_a_file_that_has_no_place_in_a_package_fails(path):
    assert rules(judge(with_files(draft(), {path: "x = 1\n"}))) >= {"unexpected-file"}


def test_assets_references_and_evals_have_their_place():
    more = {"assets/logo.png": "x", "references/more.md": "x", "evals/evals.json": "{}", "LICENSE.txt": "MIT"}
    assert judge(with_files(draft(), more)).verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("skills-ref", "no frontmatter"),
        ("skills-ref", skill_md("name: other-name\ndescription: x\n")),
        ("skills-ref", skill_md(f"name: {NAME}\n")),
        ("skills-ref", skill_md(f"name: {NAME}\ndescription: x\nversion: 1.0.0\n")),
        ("skills-ref", skill_md(f"name: {NAME}\ndescription: {'x' * 1025}\n")),
        ("skills-ref", skill_md(f"name: {NAME}\ndescription: &a x\nlicense: *a\n")),
        ("skills-ref", skill_md("- a\n- b\n")),
        ("skill-md-ascii", skill_md(f"name: {NAME}\ndescription: Fetch é\n")),
        ("skill-md-ascii", skill_md(f"name: {NAME}\ndescription: Fetch <b>now</b>\n")),
        ("version", skill_md(f"name: {NAME}\ndescription: x\nmetadata:\n  version: '9.9.9'\n")),
        ("skill-md", skill_md(body="x\n" * 600)),
        ("skill-md", skill_md(f"name: {NAME}\ndescription: x\n# {'x' * 9000}\n")),
    ],
)
def test_a_skill_document_outside_the_format_fails(rule, text):
    assert rule in rules(judge(with_files(draft(), {"SKILL.md": text})))


def test_a_skill_document_that_is_not_utf8_fails():
    files = {path: text.encode() for path, text in draft().items()}
    assert "skill-md" in rules(judge({**files, "SKILL.md": b"---\nname: \xff\n---\n"}))


def test_a_description_longer_than_strict_hosts_show_is_noted_and_passes():
    text = skill_md(f"name: {NAME}\ndescription: {'x' * 200}\n")
    judgement = judge(with_files(draft(), {"SKILL.md": text}))
    assert judgement.verdict is Verdict.PASS
    assert [finding.severity for finding in judgement.findings] == ["low"]


@pytest.mark.parametrize(
    "front", ["name: " + "[" * 4000 + "\n", "a: {" * 1500 + "\n", "? " * 3000 + "\n", "\ud7ff: \x7f\n"]
)
def test_frontmatter_made_to_break_the_parser_never_passes(front):
    try:
        assert judge(with_files(draft(), {"SKILL.md": skill_md(front)})).verdict is Verdict.FAIL
    except ToolBroke as broke:
        assert broke.tool == "skills-ref"


def test_a_manifest_that_lies_about_a_file_fails_and_names_it():
    judgement = judge(draft() | {"SKILL.md": skill_md()})
    assert rules(judgement) == {"manifest-untrue"}
    assert "SKILL.md" in judgement.summary


def test_a_manifest_that_cannot_be_read_fails():
    assert "manifest" in rules(judge(draft() | {MANIFEST: "{}"}))


@pytest.mark.parametrize(
    ("rule", "files"),
    [
        ("case", with_files(draft(), {"tests/cases/bad.json": '{"name": "bad"}'})),
        ("case", with_files(draft(), {"tests/cases/bad.json": '{"name": "bad", "arguments": {"user_id": NaN}}'})),
        ("case", with_files(draft(), {"tests/cases/bad.json": '{"name": "bad", "arguments": {"user_id": 5}}'})),
        ("case", draft(output_schema={"type": "object", "required": ["missing"]})),
        ("json", with_files(draft(), {"evals/evals.json": '{"a": 1, "a": 2}'})),
        ("schema", draft(input_schema={**INPUT, "type": "array"})),
        ("schema", draft(input_schema={"type": "object", "properties": 5})),
        ("schema", draft(output_schema={"patternProperties": {"(a+)+$": {}}})),
        ("shape-parameters", draft(input_schema={**INPUT, "properties": {"user_id": {}}})),
        ("shape-parameters", draft(input_schema={**INPUT, "required": ["user_id", "limit"]})),
        ("shape-run", draft(CODE.replace("def run(", "async def run("))),
        ("shape-run", draft(CODE.replace("def run(tools, *,", "def run(tools,"))),
        ("shape-run", draft(CODE.replace("def run(", "def go("))),
        ("shape-notice", draft(notice=False)),
        ("shape-notice", draft(CODE + "\n\nrun = open_orders\n", notice=False)),
    ],
)  # fmt: skip
def test_a_case_schema_or_signature_that_does_not_fit_fails(rule, files):
    assert rule in rules(judge(files))


def test_references_to_elsewhere_in_a_schema_are_never_fetched():
    schema = {
        "type": "object",
        "properties": {"user_id": {"$ref": "http://127.0.0.1:9/x.json"}, "limit": {}},
        "required": ["user_id"],
    }
    judgement = judge(draft(input_schema=schema))
    assert judgement.verdict is Verdict.FAIL
    assert "outside itself" in judgement.summary


def test_code_that_cannot_be_parsed_is_left_to_lint():
    assert judge(draft("def run(\n")).verdict is Verdict.PASS


def test_the_sample_has_what_the_gates_need():
    assert len(CASES) >= 3
    assert {granted.name for granted in TOOLS} == {"get_user", "get_order"}
    assert tool("x", "write").effect == "write"
    assert draft()["tests/test_skill.py"] == TEST_SKILL
