import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from skills_ref.parser import parse_frontmatter
from skills_ref.validator import validate

from instar.skills.document import SHORT_DESCRIPTION, describe, example_command, render_skill_md
from instar.skills.test_template import TEST_SKILL, direct_run_notice

SCHEMA = {
    "type": "object",
    "properties": {
        "user_id": {"type": "string", "description": "who | asks"},
        "limit": {"type": ["integer", "null"]},
    },
    "required": ["user_id"],
}


def render(**changes: object) -> str:
    values: dict[str, object] = {
        "name": "user-with-orders",
        "description": "Fetch a user and all of their orders in one call.",
        "when_to_use": ["A customer gives a user id and the answer needs their orders"],
        "when_not_to_use": ["Only the address is asked for."],
        "input_schema": SCHEMA,
        "output_schema": {"type": "object"},
        "steps_by_hand": ["Call get_user with user_id.", "For each order, call get_order."],
        "version": "0.1.0",
    }
    return render_skill_md(**(values | changes))  # type: ignore[arg-type]


def test_the_document_has_the_six_keys_the_sections_and_the_command(tmp_path):
    text = render()
    front, body = parse_frontmatter(text)
    assert set(front) == {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
    assert front["description"].startswith("Use when a customer gives a user id")
    assert front["metadata"]["version"] == "0.1.0"
    for part in ("## When to use", "## When not to use", "## Inputs", "## Output", "## The same by hand"):
        assert part in body
    assert "instar skills run user-with-orders --arg user_id=VALUE\n" in body
    folder = tmp_path / "user-with-orders"
    folder.mkdir()
    (folder / "SKILL.md").write_text(text)
    assert validate(folder) == []


def test_names_of_tools_stay_as_an_agent_must_write_them():
    text = render(steps_by_hand=["Call get_user_details, then each of orders[*] by get_order_details."])
    assert "1. Call get_user_details, then each of orders[\\*] by get_order_details." in text


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("# no heading", "\\# no heading"),
        ("- no list", "\\- no list"),
        ("1. no list", "1\\. no list"),
        ("_no_ emphasis", "\\_no\\_ emphasis"),
        ("[no](http://link.test)", "[no\\](http://link.test)"),
        ("no `code`", "no \\`code\\`"),
        ("order #W1 stays", "order #W1 stays"),
    ],
)
def test_markdown_in_a_value_is_only_text(value, written):
    assert f"\n- {written}\n" in render(when_not_to_use=[value])


def test_a_bar_in_a_meaning_does_not_end_its_cell():
    assert "| `user_id` | string | yes | who \\| asks |\n| `limit` | integer or null | no |  |" in render()


HOSTILE = st.text(max_size=300) | st.sampled_from(
    [
        "---\nname: x",
        '"\n---\n',
        "</description><b>",
        "\u202eevil",
        "a: b # c",
        "{{ 7*7 }}",
        "```\n# H",
        "\x00\x1b[2J",
    ]
)


@given(description=HOSTILE, situation=HOSTILE, step=HOSTILE, licence=HOSTILE)
def test_hostile_values_never_leave_their_place(description, situation, step, licence):
    text = render(
        description=f"d {description}",
        when_to_use=[f"s {situation}"],
        when_not_to_use=[step],
        steps_by_hand=[f"x {step}"],
        license=licence,
        output_schema={"description": description},
    )
    assert text.isascii()
    front, body = parse_frontmatter(text)
    assert list(front) == ["name", "description", "license", "compatibility", "metadata", "allowed-tools"]
    assert front["name"] == "user-with-orders"
    assert 0 < len(front["description"]) <= 1024
    assert not set("<>") & set(text)
    headings = [line for line in body.splitlines() if line.startswith("#")]
    assert headings == [
        "# user-with-orders", "## When to use", "## When not to use", "## How to run", "## Inputs", "## Output",
        "## The same by hand",
    ]  # fmt: skip
    assert body.count("```") == 4
    block = body.split("```json\n")[1].split("\n```")[0]
    assert json.loads(block) == {"description": description}


@pytest.mark.parametrize(
    ("does", "when", "expected"),
    [
        ("Fetch it.", ["An order id is known."], "Use when an order id is known. Fetch it."),
        ("Fetch it.", ["When asked"], "When asked. Fetch it."),
        ("Use when asked. Fetch it.", ["Other"], "Use when asked. Fetch it."),
        ("Fetch it.", ["API keys expire"], "Use when API keys expire. Fetch it."),
        ("Fetch it.", [], "Fetch it."),
    ],
)
def test_a_description_puts_the_situation_first(does, when, expected):
    assert describe(does, when) == expected


@given(st.lists(st.from_regex(r"[A-Z][a-z ]{5,60}\.", fullmatch=True), min_size=1, max_size=40))
def test_a_description_keeps_whole_sentences_within_what_strict_hosts_show(sentences):
    text = describe(" ".join(sentences), ["It is asked"])
    assert text.startswith("Use when it is asked.")
    assert len(text) <= SHORT_DESCRIPTION


def test_one_overlong_sentence_is_cut_at_the_limit_of_the_format():
    assert len(describe("x" * 5000, [])) == 1024


def test_a_command_shows_no_input_that_is_not_an_identifier():
    assert example_command("a", {"required": ["ok", "; rm -rf /"]}) == "instar skills run a --arg ok=VALUE"


def test_a_command_without_required_inputs_shows_the_first_one():
    schema = {"properties": {"email": {}, "name": {}}, "required": []}
    assert example_command("a", schema) == "instar skills run a --arg email=VALUE"
    assert example_command("a", {}) == "instar skills run a"


def test_the_test_file_of_a_package_passes_and_fails_with_its_cases(tmp_path: Path, pytester_run):
    code = 'def run(tools, *, n):\n    return {"n": tools.get(n=n)}\n'
    good = {
        "name": "a",
        "arguments": {"n": 1},
        "calls": [{"tool": "get", "arguments": {"n": 1}, "result": 2}],
        "returns": {"n": 2},
    }
    error = {
        "name": "b",
        "arguments": {"n": 3},
        "calls": [{"tool": "get", "arguments": {"n": 3}, "error": "gone"}],
        "raises": "gone",
    }
    assert pytester_run(code, {"a": good, "b": error}) == {"passed": 2}
    assert pytester_run(code, {"a": good | {"returns": {"n": 2.0}}}) == {"failed": 1}
    assert pytester_run(code, {"a": good | {"returns": {"n": True}}}) == {"failed": 1}
    assert pytester_run(code, {"a": good | {"calls": []}}) == {"failed": 1}
    assert pytester_run(code, {"b": error | {"raises": "other"}}) == {"failed": 1}


@pytest.fixture
def pytester_run(tmp_path):
    def run(code: str, cases: dict[str, object]) -> dict[str, int]:
        folder = tmp_path / f"p{len(list(tmp_path.iterdir()))}"
        for path, text in {
            "scripts/skill.py": code + "\n\n" + direct_run_notice("a"),
            "tests/test_skill.py": TEST_SKILL,
            **{f"tests/cases/{stem}.json": json.dumps(case) for stem, case in cases.items()},
        }.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        xml = folder / "out.xml"
        subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                f"--rootdir={folder}",
                "-c",
                "/dev/null",
                f"--junitxml={xml}",
                "tests",
            ],
            cwd=folder,
            check=False,
            capture_output=True,
            env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        )
        suite = next(ElementTree.parse(xml).iter("testsuite"))  # noqa: S314 — our own file
        failed, total = int(suite.get("failures", 0)), int(suite.get("tests", 0))
        return {key: value for key, value in {"passed": total - failed, "failed": failed}.items() if value}

    return run
