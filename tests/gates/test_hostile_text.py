"""Whatever bytes a draft holds, the gates on the trusted side answer with a verdict and nothing else."""

import contextlib

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from instar.sandbox.gates.errors import ToolBroke
from instar.sandbox.gates.format import format_package
from instar.sandbox.gates.policy import policy
from instar.sandbox.gates.testing import NAME, draft
from instar.sandbox.report import Verdict
from instar.skills.package import Package, parse_manifest

BASE = {path: text.encode() for path, text in draft().items()}
MANIFEST = parse_manifest(BASE)
YAML_PIECES = (
    "name: ", NAME, "description: ", "x", "\n", "  ", "- ", "? ", ": ", "[", "]", "{", "}", "&a", "*a", "|", ">", "'",
    '"', "!!python/object:os.system ", "%YAML 1.2\n", "---", "...", "#", "\t", "\x00", "\ud7ff", "é", "null", "1e999",
    "0o17", "<<: ", "metadata:\n", "  version: ", "license: ",
)  # fmt: skip
CODE_PIECES = (
    "def run(tools, *, a):\n", "    ", "return ", "tools", ".call(", ")", "(", "'x'", "[", "]", "for x in ", "if ",
    ":", "\n", "lambda ", "=", ",", "*", "**", "import json\n", "json", ".", "__class__", "match ", "case ", "_",
    "class A:\n", "@", "f'{", "}'", "async ", "await ", "del ", "global tools\n", "except* ", "try:\n", "\\", "\x0c",
    "é", "\u202e", "0x", "1_0", "b''",
)  # fmt: skip
YAML = st.lists(st.sampled_from(YAML_PIECES), max_size=14).map("".join)
CODE = st.lists(st.sampled_from(CODE_PIECES), max_size=25).map("".join)
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@settings(QUICK, max_examples=25)
@given(front=YAML, body=st.text(max_size=40))
def test_any_skill_document_gets_a_verdict_of_the_format_gate(front, body):
    text = f"---\nname: {NAME}\ndescription: x\n{front}\n---\n{body}"
    for document in (text, f"---\n{front}\n---\n", front):
        with contextlib.suppress(ToolBroke):
            format_package(BASE | {"SKILL.md": document.encode("utf-8", "surrogatepass")}, MANIFEST)


@QUICK
@given(code=CODE | st.text(max_size=200))
def test_any_code_gets_a_verdict_of_the_policy_gate(code):
    judgement = policy(BASE | {"scripts/skill.py": code.encode("utf-8", "surrogatepass")}, MANIFEST)
    assert judgement.verdict is not Verdict.PASS, (
        "none of these has a run that takes tools and calls only what is granted"
    )


@QUICK
@given(
    content=st.binary(max_size=300),
    path=st.sampled_from(["assets/a.bin", "references/prd.md", "tests/cases/a.json", "SKILL.md"]),
)
def test_any_bytes_get_a_verdict_of_policy_and_format(content, path):
    files = BASE | {path: content}
    policy(files, MANIFEST)
    with contextlib.suppress(ToolBroke):
        assert format_package(files, MANIFEST).verdict is Verdict.FAIL, "the manifest does not know these bytes"


@QUICK
@given(files=st.dictionaries(st.sampled_from(sorted(BASE)), st.text(max_size=80), max_size=4))
def test_a_sound_package_with_any_replacement_is_still_read_without_an_exception(files):
    changed = Package(BASE | {path: text.encode() for path, text in files.items() if path != "scripts/manifest.json"})
    policy(changed, MANIFEST)
