"""The one shape that `tests/test_skill.py` of a program has, and the notice at the end of `scripts/skill.py`."""

from __future__ import annotations

LINE_LENGTH = 118
"""The line length that the lint gate formats for."""

TEST_SKILL = '''"""Replays every recorded case of this package; needs nothing but the package and its cases."""

import importlib.util
import json
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent
CASES = sorted((PACKAGE / "tests" / "cases").glob("*.json"))
SPEC = importlib.util.spec_from_file_location("skill", PACKAGE / "scripts" / "skill.py")
skill = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(skill)


def canonical(value):
    """Text that differs whenever two JSON values differ, in type as well: 1 is neither true nor 1.0."""
    return json.dumps(value, sort_keys=True, allow_nan=False)


class Tools:
    """Answers each call as it was recorded, in order; the last answer to the same call repeats."""

    class ToolError(Exception):
        """The error that a tool answered with."""

    def __init__(self, calls):
        self._answers = {}
        for call in calls:
            self._answers.setdefault((call["tool"], canonical(call["arguments"])), []).append(call)

    def call(self, name, arguments):
        """Give the recorded answer; a call that nobody recorded fails the test."""
        answers = self._answers.get((name, canonical(arguments)))
        assert answers, f"nobody recorded {name}({canonical(arguments)})"
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if answer.get("error") is not None:
            raise self.ToolError(answer["error"])
        return answer.get("result")

    def __getattr__(self, name):
        """Make `tools.NAME(key=value)` the same as `tools.call("NAME", {"key": value})`."""
        return lambda **arguments: self.call(name, arguments)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path):
    """The skill returns, or raises, what the recording says."""
    case = json.loads(path.read_text(encoding="utf-8"))
    tools = Tools(case.get("calls", []))
    if case.get("raises") is not None:
        with pytest.raises(Exception) as raised:
            skill.run(tools, **case["arguments"])
        assert str(raised.value) == case["raises"]
    else:
        assert canonical(skill.run(tools, **case["arguments"])) == canonical(case.get("returns"))
'''
"""`tests/test_skill.py` of every program that the compiler writes; the `tests` gate expects its node ids."""


def direct_run_notice(name: str) -> str:
    """The last lines of `scripts/skill.py`: run directly, it only says how it is run; formatted already."""
    text = f'"This skill runs through Instar: instar skills run {name} --arg key=value"'
    line = f"    raise SystemExit({text})"
    if len(line) > LINE_LENGTH:
        line = f"    raise SystemExit(\n        {text}\n    )"
    return f'if __name__ == "__main__":\n{line}\n'
