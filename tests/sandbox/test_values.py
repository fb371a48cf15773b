"""JSON in and out, schemas from strangers, errors, and the host's refusals."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import pickle
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from instar.sandbox import errors
from instar.sandbox.errors import (
    BindingError,
    DependencyMissing,
    DependencyUnusable,
    InvalidJob,
    SandboxFailed,
    SandboxUnavailable,
    ToolError,
    Uncovered,
    UnusableSchema,
)
from instar.sandbox.host import diagnose
from instar.sandbox.jsonvalues import MAX_DEPTH, canonical, parse, to_json
from instar.sandbox.schemas import ArgumentSchema

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(value=JSON)
def test_what_is_written_is_read_back(value):
    assert parse(canonical(value).encode()) == value
    assert to_json(value) == value


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"NaN",
        b"[Infinity]",
        b"1e999",
        b'{"a":1,"a":2}',
        b'"\\ud800"',
        b"\xff",
        b"[" * 100_000,
        b"1" * 5000,
    ],
)
def test_what_is_no_strict_json_is_refused(data):
    with pytest.raises(ValueError):
        parse(data)


def test_nesting_is_bounded():
    assert parse(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    with pytest.raises(ValueError, match="deeply"):
        parse(b"[" * (MAX_DEPTH + 2) + b"]" * (MAX_DEPTH + 2))


class Colour(enum.Enum):
    RED = "red"


class Model(BaseModel):
    at: datetime.date
    colour: Colour = Colour.RED


@dataclasses.dataclass
class Pair:
    left: object
    right: object


def test_python_values_become_json():
    value = {
        "model": Model(at=datetime.date(2026, 1, 2)),
        "pair": Pair((1, 2), {Colour.RED: b"text"}),
        "set": {3, 1, 2},
        "time": datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.UTC),
        5: None,
    }
    assert to_json(value) == {
        "model": {"at": "2026-01-02", "colour": "red"},
        "pair": {"left": [1, 2], "right": {"red": "text"}},
        "set": [1, 2, 3],
        "time": "2026-01-02T03:04:00+00:00",
        "5": None,
    }


@pytest.mark.parametrize("value", [object(), float("nan"), {1.5: 2}, b"\xff", lambda: 0, Pair])
def test_what_has_no_json_form_is_refused(value):
    with pytest.raises((TypeError, ValueError)):
        to_json(value)


def test_a_value_that_contains_itself_is_refused():
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="deeply"):
        to_json(loop)


def test_a_schema_judges_values():
    schema = ArgumentSchema({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    assert schema.problem({"n": 1}) == ""
    assert "n: 'x' is not of type 'integer'" in schema.problem({"n": "x"})
    assert "required" in schema.problem({})


def test_references_within_a_schema_work():
    schema = ArgumentSchema({"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}})
    assert schema.problem({"a": 1}) == ""
    assert schema.problem({"a": "x"})


@pytest.mark.parametrize("target", ["http://127.0.0.1:9/schema", "file:///etc/passwd", "other.json", "#/nowhere"])
def test_a_schema_cannot_reach_outside_itself(target):
    assert ArgumentSchema({"properties": {"a": {"$ref": target}}}).problem({"a": 1})


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"patternProperties": {"(a+)+$": {}}}, {"properties": 3}])
def test_an_unusable_schema_is_named(schema):
    with pytest.raises(UnusableSchema):
        ArgumentSchema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"pattern": "(a+)+$"}}},
        {
            "$defs": {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(40)} | {"d40": {}},
            "$ref": "#/$defs/d0",
        },
        {"$ref": "#"},
    ],
    ids=["endless pattern", "doubling references", "itself"],
)
def test_no_schema_takes_long(schema):
    begun = time.monotonic()
    ArgumentSchema(schema).problem({"a": "a" * 40 + "!"})
    assert time.monotonic() - begun < 5


def test_properties_named_like_keywords_are_just_properties():
    schema = ArgumentSchema({"type": "object", "properties": {"unevaluatedItems": {"type": "string"}}})
    assert schema.problem({"unevaluatedItems": "x"}) == ""


@pytest.mark.parametrize(
    "error",
    [
        SandboxUnavailable("bubblewrap", "cause", "Remedy."),
        SandboxFailed("bubblewrap", "reason"),
        InvalidJob("files", "reason"),
        BindingError("tools.toml", "tools.x", "reason", "Remedy."),
        ToolError("message"),
        Uncovered("tool", "{}"),
        DependencyMissing("name", "1.0", "folder"),
        DependencyUnusable("name", "1.0", "reason"),
        UnusableSchema("reason"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_keep_their_fields_and_pickle(error):
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 — our own
    assert isinstance(copy, errors.SandboxError)
    assert (type(copy), copy.__dict__, str(copy)) == (type(error), error.__dict__, str(error))


@pytest.mark.parametrize(
    ("setting", "value", "cause", "remedy"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor", "apparmor_restrict_unprivileged_userns=0"),
        ("user/max_user_namespaces", "0", "max_user_namespaces = 0", "max_user_namespaces=10000"),
        ("kernel/unprivileged_userns_clone", "0", "unprivileged_userns_clone = 0", "unprivileged_userns_clone=1"),
    ],
)
def test_a_host_that_forbids_namespaces_is_explained(tmp_path, setting, value, cause, remedy):
    path = tmp_path / "proc/sys" / setting
    path.parent.mkdir(parents=True)
    path.write_text(value + "\n")
    found = diagnose("bwrap: setting up uid map: Permission denied", tmp_path)
    assert cause in found.cause
    assert remedy in found.remedy
    assert "INSTAR_SANDBOX=docker" in found.remedy


def test_a_container_that_forbids_namespaces_is_explained(tmp_path):
    (tmp_path / ".dockerenv").touch()
    found = diagnose("bwrap: No permissions", tmp_path)
    assert "container" in found.cause
    assert "bwrap: No permissions" in found.cause
    assert "--security-opt" in found.remedy
