"""Command lines are read as a shell would split them, and never fail."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.engine.compiler.shell import command_text, installed, main_command, parse
from instar.engine.session import ToolCall


def labels(text: str) -> list[tuple[str, str]]:
    return [(command.label, command.category) for command in parse(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("go test ./... -run TestX", [("go test", "test")]),
        ("cd a && mise run lint 2>&1 | tail -20", [("mise run lint", "lint"), ("tail", "inspect")]),
        ("mise run test:ci", [("mise run test:ci", "test")]),
        ("npm run fmt; npm test", [("npm run fmt", "format"), ("npm test", "test")]),
        ("cd /x && python3 -m pytest tests -q", [("python -m pytest", "test")]),
        ("PYTHONPATH=. timeout 60 uv run --quiet pytest", [("pytest", "test")]),
        ("python -m pip install -e .", [("python -m pip install", "install")]),
        ("bash -lc 'cargo clippy --all'", [("cargo clippy", "lint")]),
        ("./tests/runtests.py queries", [("runtests.py", "test")]),
        ("git commit -m 'a; b && c | d'", [("git commit", "vcs")]),
        ("cat > a.py <<'EOF'\nrm -rf / && make\nEOF\ngo build ./...", [("cat", "inspect"), ("go build", "build")]),
        ("find . -name '*.py' -exec grep x {} \\;", [("find", "inspect")]),
        ("echo $(git rev-parse HEAD; ls) # rm x", [("echo", "inspect")]),
    ],
)
def test_simple_commands_are_labelled_by_what_they_do(text: str, expected: list[tuple[str, str]]) -> None:
    assert labels(text) == expected


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("make", [False]),
        ("make && make test", [False, False]),
        ("make | tail", [True, False]),
        ("make; make test", [True, False]),
        ("make || true", [True, False]),
        ("make > log 2>&1", [False]),
        ("make;", [False]),
    ],
)
def test_an_exit_status_is_hidden_by_what_follows(text: str, masked: list[bool]) -> None:
    assert [command.masked for command in parse(text)] == masked


def test_the_main_command_is_the_last_check_else_the_first_that_acts() -> None:
    assert main_command("ls && make fmt && go test ./...").label == "go test"  # type: ignore[union-attr]
    assert main_command("ls; git push; ls").label == "git push"  # type: ignore[union-attr]
    assert main_command("ls -l").label == "ls"  # type: ignore[union-attr]
    assert main_command("") is None


def test_packages_are_named_with_their_versions_and_without_flags() -> None:
    assert installed("pip install -q 'numpy>=1.2' pytest==8 -e .[dev]") == ["numpy>=1.2", "pytest==8", "."]
    assert installed("apt-get update && apt-get install -y curl") == ["curl"]
    assert installed("pip list") == []


def test_only_shells_have_a_command_line() -> None:
    def call(tool: str, **arguments: str) -> ToolCall:
        return ToolCall(0, "c", tool, dict(arguments), 0)

    assert command_text(call("Bash", command="ls")) == "ls"
    assert command_text(call("swebench__execute_bash", command="ls")) == "ls"
    assert command_text(call("str_replace_editor", command="view")) is None
    assert command_text(ToolCall(0, "c", "shell", {"command": ["bash", "-lc", "ls"]}, 0)) == "ls"


@given(st.text(alphabet="ab '\"\\|&;<>$(){}#\n", max_size=60))
def test_any_text_can_be_parsed(text: str) -> None:
    for command in parse(text):
        assert command.words
        assert command.label
