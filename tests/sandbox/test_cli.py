"""`instar sandbox`, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from instar.adapters.cli.main import run
from instar.sandbox.gates.testing import CODE, draft, recipe


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch, bubblewrap):
    monkeypatch.setenv("INSTAR_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("INSTAR_SANDBOX", "bubblewrap")
    monkeypatch.chdir(tmp_path)


def laid_out(folder: Path, files: dict[str, str]) -> str:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return str(folder)


def test_check_judges_a_folder_by_every_gate_and_writes_sarif(tmp_path, capsys):
    folder = laid_out(tmp_path / "user-with-orders", draft(CODE.replace("return sum", "eval('1')\n    return sum")))
    assert run(["sandbox", "check", folder, "--json", "--sarif", str(tmp_path / "found.sarif")]) == 1
    seen = capsys.readouterr()
    report = json.loads(seen.out)
    verdicts = {result["gate"]: result["verdict"] for result in report["results"]}
    assert verdicts["policy"] == "fail"
    assert all(f"{gate}: " in seen.err for gate in verdicts)
    log = json.loads((tmp_path / "found.sarif").read_text())
    found = {result["ruleId"] for run_of_gate in log["runs"] for result in run_of_gate["results"]}
    assert "policy/dynamic" in found
    assert not (tmp_path / "home").exists()


def test_check_says_that_what_could_not_be_evaluated_is_no_rejection(tmp_path, capsys):
    assert run(["sandbox", "check", laid_out(tmp_path / "check-before-commit", recipe())]) == 3
    seen = capsys.readouterr()
    assert "incomplete" in seen.out
    assert "runs: pytest -q" in seen.out


def test_check_refuses_a_folder_with_a_link_in_one_line(tmp_path, capsys):
    folder = laid_out(tmp_path / "check-before-commit", recipe())
    Path(folder, "references", "more.md").symlink_to("/etc/passwd")
    assert run(["sandbox", "check", folder]) != 0
    assert (
        capsys.readouterr().err.strip() == "instar: references/more.md: is a link, a device or another special file"
    )


def test_probe_says_what_is_in_force(capsys):
    assert run(["sandbox", "probe", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["backend"] == "bubblewrap"
    assert "no network" in said["properties"]
