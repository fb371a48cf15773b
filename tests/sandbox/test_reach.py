"""What a granted built-in tool may reach: named hosts, the files of named folders, and nothing beside them."""

from __future__ import annotations

import base64

import pytest

from instar.sandbox.answers import Recorded
from instar.sandbox.broker import Broker, Conversation
from instar.sandbox.errors import ToolError
from instar.sandbox.filetools import Files
from instar.sandbox.gates.policy import review_manifest
from instar.sandbox.reach import out_of_reach, place_of, unclear
from instar.skills.manifest import Dependency, GrantedTool, Manifest


def granted(name, *reach):
    return GrantedTool(name=name, why="it is asked", effect="read", reach=list(reach))


def manifest(*tools, dependencies=()):
    return Manifest(
        name="a", version="0.1.0", input_schema={}, output_schema={}, tools=list(tools), confidence=1, lineage="l",
        files={}, dependencies=list(dependencies),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("tool", "reach", "arguments"),
    [
        ("http.get", "shop.example", {"url": "https://shop.example/a"}),
        ("http.get", "shop.example", {"url": "http://SHOP.example:80/a"}),
        ("http.get", "127.0.0.1:8000", {"url": "http://127.0.0.1:8000/"}),
        ("files.read", "/srv/reports", {"path": "/srv/reports/a.pdf"}),
        ("files.write", "/srv/reports", {"path": "/srv/reports/a.md", "text": ""}),
        ("get_order", "", {"url": "https://anywhere.example"}),
    ],
)
def test_what_is_named_is_reached(tool, reach, arguments):
    assert out_of_reach(tool, [reach], arguments) == ""


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("http.get", {"url": "https://other.example/a"}),
        ("http.get", {"url": "https://shop.example.evil.example/"}),
        ("http.get", {"url": "https://shop.example:8443/"}),
        ("http.get", {"url": "https://shop.example@evil.example/"}),
        ("http.get", {"url": "file:///srv/reports/a"}),
        ("http.get", {"url": 7}),
        ("http.get", {}),
        ("files.read", {"path": "/srv/reports/deep/a.pdf"}),
        ("files.read", {"path": "/srv/reports/../secret"}),
        ("files.read", {"path": "/srv/reports"}),
        ("files.read", {"path": "srv/reports/a.pdf"}),
        ("files.read", {"path": "/srv/reports/a\0b/../c"}),
        ("files.read", {"path": "/"}),
    ],
)
def test_nothing_else_is_reached(tool, arguments):
    assert out_of_reach(tool, ["shop.example", "/srv/reports"], arguments)


def test_the_broker_refuses_what_is_out_of_reach_before_anyone_is_asked():
    talk = Conversation(Broker({"http.get": granted("http.get", "shop.example")}, Recorded([])))
    answer = talk.receive(b'{"id": 1, "tool": "http.get", "arguments": {"url": "http://evil.example/"}}\n')
    assert b'"refused"' in answer
    assert b"not granted for 'evil.example'" in answer


@pytest.mark.parametrize(
    ("tool", "problem"),
    [
        (granted("http.get"), "does not say"),
        (granted("files.read"), "does not say"),
        (granted("http.get", "*"), "no plain host"),
        (granted("http.get", "https://shop.example"), "no plain host"),
        (granted("http.get", "shop.example/path"), "no plain host"),
        (granted("http.get", "a" * 50_000 + "!"), "no plain host"),
        (granted("files.read", "/"), "no plain folder"),
        (granted("files.read", "/srv/*"), "no plain folder"),
        (granted("files.write", "/srv/../etc"), "no plain folder"),
        (granted("files.write", "reports"), "no plain folder"),
        (granted("get_order", "shop.example"), "only built-in tools"),
    ],
)
def test_a_grant_that_says_nothing_plain_is_no_skills_grant(tool, problem):
    assert problem in unclear(tool)
    assert ("reach", "high") in {(found.rule, found.severity) for found in review_manifest(manifest(tool))}


def test_a_plain_reach_is_shown_to_the_reviewer():
    tool = granted("http.get", "shop.example", "127.0.0.1:8000", "::1")
    (found,) = review_manifest(manifest(tool))
    assert (found.rule, found.severity) == ("reach", "elevated")
    assert "shop.example, 127.0.0.1:8000, ::1" in found.message


def test_a_wheel_cannot_pose_as_a_module_of_python():
    pin = Dependency(name="handy", version="1", sha256=["0" * 64], modules=["handy", "os"])
    found = {(one.rule, one.severity) for one in review_manifest(manifest(dependencies=[pin]))}
    assert ("dependency", "high") in found


def test_bytes_are_read_as_base64_when_asked_for(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"\xff\x00")
    files = Files([tmp_path])
    assert base64.b64decode(files.read(f"{tmp_path}/a.bin", encoding="base64")) == b"\xff\x00"
    with pytest.raises(ToolError, match="base64"):
        files.read(f"{tmp_path}/a.bin")
    with pytest.raises(ToolError, match="neither"):
        files.read(f"{tmp_path}/a.bin", encoding="rot13")


def test_a_place_is_spelled_as_allow_lists_spell_it():
    assert place_of("http.get", "https://shop.example:443/a?b") == "shop.example"
    assert place_of("files.read", "/srv/reports/a.pdf") == "/srv/reports"
