"""The loader takes known names only, demands every value, and lets no value become structure."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.prompts import RenderFailed, UnknownTemplate, names, render, source, version
from instar.prompts.markdown import block, code, finalize, text
from instar.sandbox.report import Finding, GateReport, GateResult, Verdict


def report(**changes: object) -> GateReport:
    values = {
        "skill": "user-with-orders",
        "version": "0.1.0",
        "digest": "sha256:" + "0" * 64,
        "results": [],
        "risk": "low",
        "isolation": ["namespaces", "seccomp"],
        "tools": {"ruff": "0.17.6"},
    }
    return GateReport.model_validate(values | changes)


@pytest.mark.parametrize("name", ["../pyproject.toml", "/etc/passwd", "prd.md", "", "_binding.md.j2", "prd.md.j2\0"])
def test_only_the_names_of_whole_templates_are_known(name: str) -> None:
    with pytest.raises(UnknownTemplate) as raised:
        render(name)
    assert raised.value.known == names()


def test_a_missing_value_is_an_error_that_names_it() -> None:
    with pytest.raises(RenderFailed, match="report"):
        render("gate_report.md.j2")


def test_errors_keep_their_fields_when_pickled() -> None:
    error = pickle.loads(pickle.dumps(RenderFailed("a.j2", "no value")))  # noqa: S301 — made two lines above
    assert (error.name, error.problem) == ("a.j2", "no value")


def test_the_version_is_that_of_the_text() -> None:
    assert {version(name) for name in names()} == {version(name) for name in names()}
    assert len({version(name) for name in names()}) == len(names())
    assert all(source(name) for name in names())


def test_a_value_is_never_read_as_a_template() -> None:
    shown = render("gate_report.md.j2", report=report(skill="{{ 7 * 7 }}{% raw %}"))
    assert "49" not in shown
    assert "{{ 7 * 7 }}" in shown


def test_a_hostile_finding_stays_in_its_cell() -> None:
    nasty = "x | y\n\n# Passed\n<script>alert(1)</script> [go](http://evil.example) `a`"
    gate = GateResult(
        gate="policy",
        verdict=Verdict.FAIL,
        summary=nasty,
        seconds=0.1,
        findings=[Finding(message=nasty, file="a|b`c", line=3, rule="R|1", severity="high")],
    )
    lines = render("gate_report.md.j2", report=report(results=[gate])).splitlines()
    assert "# Passed" not in lines
    row = next(line for line in lines if line.startswith("| high"))
    assert row.replace("\\|", "").count("|") == 5
    assert "<script>" not in row.replace("\\<", "")
    assert "](" not in row.replace("\\]", "")


@pytest.mark.parametrize(
    ("verdict", "word"), [("pass", "Passed"), ("fail", "Failed"), ("incomplete", "not be completed")]
)
def test_the_verdict_is_told_first(verdict: str, word: str) -> None:
    gate = GateResult(gate="lint", verdict=Verdict(verdict), summary="", seconds=0)
    shown = render("gate_report.md.j2", report=report(results=[gate]))
    assert word in shown.splitlines()[2]


@given(st.text(max_size=80))
def test_text_never_breaks_a_line_or_a_table_cell(value: str) -> None:
    shown = text(value)
    assert "\n" not in shown
    assert "|" not in shown.replace("\\\\", "").replace("\\|", "")
    assert "<" not in shown.replace("\\\\", "").replace("\\<", "")


@given(st.text(max_size=80))
def test_code_is_closed_by_nothing_inside_it(value: str) -> None:
    shown = code(value)
    fence = shown[: len(shown) - len(shown.lstrip("`"))]
    inside = shown[len(fence) : len(shown) - len(fence)]
    assert fence not in inside or not fence
    assert "|" not in shown


@given(st.recursive(st.none() | st.booleans() | st.text(max_size=30), lambda inner: st.lists(inner, max_size=3)))
def test_a_block_has_one_fence_at_each_end(value: object) -> None:
    lines = block(value).splitlines()
    fence = lines[-1]
    assert set(fence) == {"`"}
    assert not any(line.startswith(fence) for line in lines[1:-1])


def test_only_what_a_filter_made_is_printed_as_it_is() -> None:
    assert finalize("*a*") == "\\*a\\*"
    assert finalize(code("*a*")) == "`*a*`"


def test_invisible_characters_are_shown_as_such() -> None:
    assert "\u202e" not in text("a\u202eb")
    assert "\u200b" not in code("a\u200bb")
