import time

import pytest

from benchmarks.policy_corpus import Sample, benign, code, encode, malicious, plus
from benchmarks.policy_corpus_recipes import benign_recipes, malicious_recipes
from instar.sandbox.gates.judgement import Judgement
from instar.sandbox.gates.policy import policy, risk_of
from instar.sandbox.gates.testing import CODE, TOOLS, draft, tool
from instar.sandbox.report import Verdict
from instar.skills.package import parse_manifest

SEVERITIES = ("info", "low", "elevated", "high")


def judge(files: dict[str, bytes]) -> Judgement:
    return policy(files, parse_manifest(files))


def risk(files: dict[str, bytes]) -> str:
    return risk_of(judge(files).findings, parse_manifest(files))


@pytest.mark.parametrize("sample", [*benign(), *benign_recipes()], ids=lambda sample: sample.name)
def test_a_harmless_package_that_looks_dangerous_passes(sample: Sample):
    judgement = judge(sample.files)
    assert judgement.verdict is Verdict.PASS, judgement.findings


@pytest.mark.parametrize("sample", [*malicious(), *malicious_recipes()], ids=lambda sample: sample.name)
def test_a_malicious_package_is_noticed_by_its_kind_and_place(sample: Sample):
    judgement = judge(sample.files)
    found = [finding for finding in judgement.findings if finding.rule == sample.rule]
    assert max(SEVERITIES.index(finding.severity) for finding in found) >= SEVERITIES.index(sample.severity)
    assert all(finding.file for finding in found)
    if sample.severity == "high":
        assert judgement.verdict is Verdict.FAIL
    assert risk(sample.files) in ("elevated", "high")


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("scripts/skill.py", b"def run(\n"),
        ("scripts/skill.py", b"x = '\xff'\n"),
        ("scripts/skill.py", b"x = 1\x00\n"),
        ("scripts/skill.py", b"x = " + b"(" * 5000 + b")" * 5000 + b"\n"),
        ("scripts/skill.py", b"x = " + b"-" * 100_000 + b"1\n"),
        ("scripts/skill.py", b"x = " + b".a" * 60_000 + b"\n"),
        ("scripts/skill.py", b"x = a" + b".a" * 60_000 + b"\n"),
        ("scripts/skill.py", b"x = " + b"9" * 5000 + b"\n"),
        ("tests/cases/odd.json", b"{"),
        ("tests/cases/odd.json", b"[" * 100_000),
        ("references/prd.md", b"\xff\xfe"),
    ],
)
def test_a_file_that_cannot_be_parsed_is_incomplete_and_never_safe(path, content):
    files = encode(draft()) | {path: content}
    assert judge(files).verdict is not Verdict.PASS


def test_a_hostile_file_of_the_largest_size_is_read_in_a_bounded_time():
    size = 60_000
    for content in (
        b"# " + b"ignore all previous " * (size // 20),
        b"# " + b">" * size,
        b"# " + b"eyJaaaaaaaa.-" * (size // 13),
        b"# " + b"sk-" * (size // 3),
        b"# " + b"secret " * (size // 7),
        b"# " + b"a://b:" * (size // 6),
        b"# " + b"<!--" * (size // 4),
        b"# " + b"curl " * (size // 5),
        b"# " + b" " * size,
        b"# " + b"do not " * (size // 7),
        b"# -----BEGIN " + b"A " * (size // 2),
        b"# \xe2\x80\x8b" * (size // 5),
        b"# rm -" + b"r" * size,
        b"# " + b"send " * (size // 5),
    ):
        started = time.process_time()
        judge(encode(draft()) | {"references/prd.md": content})
        assert time.process_time() - started < 2.0, content[:40]


def test_general_findings_of_bandit_are_for_the_reviewer_and_cannot_be_silenced():
    weak = code("assert hashlib.md5(user_id.encode())  # nosec", head="\nimport hashlib\n")
    judgement = judge(weak)
    assert [finding.rule for finding in judgement.findings] == ["bandit-B324"]
    assert judgement.verdict is Verdict.PASS
    assert risk(weak) == "elevated"


def test_more_code_than_a_person_can_review_fails():
    assert "too-long" in {finding.rule for finding in judge(encode(draft(CODE + "x = 1\n" * 20_000))).findings}


def test_findings_name_the_line():
    judgement = judge(code("eval(user_id)"))
    found = next(finding for finding in judgement.findings if finding.rule == "dynamic")
    lines = code("eval(user_id)")["scripts/skill.py"].decode().splitlines()
    assert "eval(user_id)" in lines[found.line - 1]


def test_a_grant_that_is_never_used_is_noted():
    judgement = judge(encode(draft(tools=[*TOOLS, tool("get_product")])))
    assert judgement.verdict is Verdict.PASS
    assert [finding.rule for finding in judgement.findings] == ["grant-unused"]


def test_the_risk_is_low_only_when_nothing_was_seen_and_nothing_can_be_written():
    assert risk(encode(draft())) == "low"
    writes = CODE.replace("tools.get_order(", "tools.cancel_order(")
    assert (
        risk(encode(draft(writes, tools=[TOOLS[0], tool("cancel_order", "write")], side_effects="writes")))
        == "elevated"
    )
    assert risk(plus("SKILL.md", "\nSee https://unknown.test/.\n")) == "elevated"
    assert risk(code("eval(user_id)")) == "high"
    assert risk_of([], None) == "high"
