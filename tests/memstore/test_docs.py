"""What the page about the page store says is so."""

import re
from pathlib import Path

import pytest

from instar.memstore import FaultKind, PageType, ReasonCode

PAGE = (Path(__file__).parents[2] / "docs" / "page-store.md").read_text(encoding="utf-8")


def rows_of(heading: str) -> list[str]:
    """The first cells of the table below a line of the page that begins like this."""
    after = PAGE.split(heading, 1)[1].split("|---|", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^\| `?([A-Za-z_-]+)`? \|", after, re.MULTILINE)


def test_the_snippet_runs_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (snippet,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(snippet, "page-store.md", "exec"), {})  # noqa: S102  (our own page)
    shown = capsys.readouterr().out
    assert "Never ship to a closed address." in shown
    assert "left at the door" in shown
    assert (tmp_path / "memory.db").exists()


def test_every_fault_reason_and_type_is_explained_and_no_other() -> None:
    assert rows_of("## Faults") == [kind.value for kind in FaultKind]
    assert rows_of("## Writing") == [code.value for code in ReasonCode]
    assert rows_of("Six types") == [kind.value for kind in PageType]
