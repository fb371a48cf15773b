"""`tools.toml`, from files on disk."""

from __future__ import annotations

import json
import sys

import pytest

from instar.sandbox.answers import Live
from instar.sandbox.bindings import load_bindings
from instar.sandbox.broker import Broker
from instar.sandbox.errors import BindingError, ToolError, Uncovered
from instar.sandbox.protocol import CallStatus
from instar.sandbox.skillrun import RunStatus, run_skill
from instar.skills.manifest import GrantedTool

MODULE = """
import dataclasses, datetime

@dataclasses.dataclass
class Order:
    id: str
    day: datetime.date

def get_order(order_id):
    if order_id == "none":
        raise LookupError("order not found")
    return Order(order_id, datetime.date(2026, 1, 2))

TOOLS = {"get_order": get_order, "odd": lambda: object(), "not_callable": 3}

class Shop:
    def call(self, name, arguments):
        return [name, arguments]

SHOP = Shop()
"""


@pytest.fixture
def folder(tmp_path, request):
    name = f"shop_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    yield tmp_path, name
    sys.modules.pop(name, None)


def write(folder, text):
    path = folder / "tools.toml"
    path.write_text(text)
    return path


def test_a_mapping_of_functions_is_bound_and_answers_become_json(folder):
    path, module = folder
    live = Live(load_bindings(write(path, f'[tools.shop]\npython = "{module}:TOOLS"\npath = "."\n')))
    assert live.answer("get_order", {"order_id": "#1"}) == {"id": "#1", "day": "2026-01-02"}
    assert str(path) not in sys.path
    with pytest.raises(ToolError, match="order not found"):
        live.answer("get_order", {"order_id": "none"})
    with pytest.raises(ToolError, match=r"no JSON"):
        live.answer("odd", {})
    with pytest.raises(ToolError, match="not bound"):
        live.answer("not_callable", {})


def test_an_object_with_call_is_bound_for_the_names_given(folder):
    path, module = folder
    text = f'[tools.shop]\npython = "{module}:SHOP"\npath = "."\nonly = ["buy"]\n'
    assert Live(load_bindings(write(path, text))).answer("buy", {"n": 1}) == ["buy", {"n": 1}]


def test_a_cassette_answers_what_it_holds(tmp_path):
    calls = [{"tool": "t", "arguments": {"a": 1}, "result": 5}, {"tool": "t", "arguments": {"a": 2}, "error": "no"}]
    for content in (calls, {"calls": calls, "name": "case"}):
        (tmp_path / "calls.json").write_text(json.dumps(content))
        live = Live(load_bindings(write(tmp_path, '[tools.old]\ncassette = "calls.json"\n')))
        assert live.answer("t", {"a": 1}) == 5
        with pytest.raises(ToolError, match=r"^no$"):
            live.answer("t", {"a": 2})
        with pytest.raises(Uncovered):
            live.answer("t", {"a": 3})


def test_two_sections_with_one_tool_are_both_named(folder):
    path, module = folder
    text = "".join(f'[tools.{name}]\npython = "{module}:TOOLS"\npath = "."\n' for name in ("one", "two"))
    with pytest.raises(BindingError, match=r"tools\.two.*get_order.*tools\.one") as error:
        load_bindings(write(path, text))
    assert error.value.remedy


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tools.a]\nmcp = 'x'\n", "'mcp' is not supported by this version"),
        ("[tools.a]\nopenapi = 'x'\n", "'openapi' is not supported by this version"),
        ("[tools.a]\n", "exactly one source"),
        ("[tools.a]\npython = 'a:b'\ncassette = 'c'\n", "exactly one source"),
        ("[tools.a]\npython = 'nosuchmodule_x:y'\n", "cannot be imported"),
        ("[tools.a]\npython = 'json'\n", "not module:object"),
        ("[tools.a]\npython = 'json:dumps'\n", "neither a mapping"),
        ("[tools.a]\npython = 'json:nosuch'\n", "cannot be imported"),
        ("[tools.a]\npyton = 'json:x'\n", "pyton"),
        ("[tools.a]\ncassette = 'none.json'\n", "cannot be read"),
        ("[tools]\na = 3\n", "tools.a"),
        ("[other]\n", "something else"),
        ("nonsense", "not TOML"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_section(tmp_path, text, said):
    with pytest.raises(BindingError) as error:
        load_bindings(write(tmp_path, text))
    assert said in str(error.value)
    assert "tools.toml" in str(error.value)


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(BindingError, match="cannot be read"):
        load_bindings(tmp_path / "tools.toml")


def test_a_missing_tool_of_only_is_said(folder):
    path, module = folder
    with pytest.raises(BindingError, match="no tool 'sell'"):
        load_bindings(write(path, f'[tools.a]\npython = "{module}:TOOLS"\npath = "."\nonly = ["sell"]\n'))


def test_a_skill_in_the_sandbox_reaches_the_real_tool(folder, bubblewrap):
    path, module = folder
    live = Live(load_bindings(write(path, f'[tools.shop]\npython = "{module}:TOOLS"\npath = "."\n')))
    grants = {"get_order": GrantedTool(name="get_order", why="reads", effect="read")}
    files = {"scripts/skill.py": b"def run(tools, *, order): return tools.get_order(order_id=order)['day']"}
    run = run_skill(bubblewrap, files, {"order": "#1"}, Broker(grants, live))
    assert (run.status, run.value) == (RunStatus.RETURNED, "2026-01-02")
    failed = run_skill(bubblewrap, files, {"order": "none"}, Broker(grants, live))
    assert (failed.error, failed.job.calls[0].status) == ("order not found", CallStatus.FAILED)
