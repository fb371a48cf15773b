"""What `python -m benchmarks` prints and returns."""

from __future__ import annotations

import json
import pickle
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.errors import BadResult, CannotLoad, ChildFailed, DataMissing, UnknownBenchmark
from benchmarks.registry import BENCHMARKS, load

CHECKOUT = Path(__file__).resolve().parents[2]
Run = Callable[..., subprocess.CompletedProcess[str]]


def test_json_prints_exactly_one_document_with_the_five_keys(run_frame: Run, tiny: str) -> None:
    finished = run_frame({"tiny": tiny}, "tiny", "--json")
    assert finished.returncode == 0, finished.stderr
    printed = json.loads(finished.stdout)
    assert list(printed) == ["benchmark", "commit", "machine", "results", "detail"]
    assert printed["benchmark"] == "tiny"
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?|unknown", printed["commit"])
    assert printed["machine"]["python"] == platform.python_version()
    assert printed["machine"]["cores"] >= 1
    assert printed["machine"]["memory_mb"] > 100
    assert printed["results"] == {
        "count.last": 10, "count.wrong": 0, "count.seconds": 0.25, "count.share": 0.75, "peer.seconds": 0.5,
    }  # fmt: skip
    assert printed["detail"]["quick"] is False
    assert printed["detail"]["steps"] == [1, 2]
    assert printed["detail"]["baselines"] == {"count.last": 7}
    assert printed["detail"]["bars"]["count.wrong"] == {"value": 0, "kind": "equals"}


def test_what_a_benchmark_or_its_child_prints_goes_to_stderr(run_frame: Run, tiny: str) -> None:
    finished = run_frame({"tiny": tiny}, "tiny", "--json")
    assert {"counting", "noise of the benchmark", "noise of a child"} <= set(finished.stderr.splitlines())
    assert finished.stdout.count("\n") == 1


def test_quick_reaches_the_benchmark_and_says_so(run_frame: Run, tiny: str) -> None:
    printed = json.loads(run_frame({"tiny": tiny}, "tiny", "--json", "--quick").stdout)
    assert printed["detail"]["quick"] is True
    assert printed["results"]["count.last"] == 5
    assert "quick, not the size of the figures" in run_frame({"tiny": tiny}, "tiny", "--quick").stdout


def test_the_table_shows_measured_value_bar_and_base_line(run_frame: Run, tiny: str) -> None:
    finished = run_frame({"tiny": tiny}, "tiny")
    rows = {cells[0]: cells[1:] for cells in map(cells_of, finished.stdout.splitlines()) if len(cells) == 5}
    assert rows["count.last"] == ["10", "≥ 10", "met", "7"]
    assert rows["count.wrong"] == ["0", "= 0", "met", ""]
    assert rows["count.seconds"] == ["0.25", "≤ peer.seconds", "met", ""]
    assert rows["count.share"] == ["0.75", "≤ 0.5", "missed", ""]
    assert rows["count.forgotten"] == ["not measured", "= 1", "", ""]
    assert rows["peer.seconds"] == ["0.5", "", "", ""]


def test_a_missed_bar_is_a_finding_and_not_an_error(run_frame: Run, tiny: str) -> None:
    assert "missed" in (finished := run_frame({"tiny": tiny}, "tiny")).stdout
    assert finished.returncode == 0


def test_an_unknown_name_lists_the_known_with_one_line_each(run_frame: Run, tiny: str) -> None:
    broken = "import no_such_library_at_all\n"
    finished = run_frame({"tiny": tiny, "broken": broken}, "nothing", "--json")
    assert finished.returncode == 2
    assert finished.stdout == ""
    assert "there is no benchmark 'nothing'" in finished.stderr
    lines = [line.split(maxsplit=1) for line in finished.stderr.splitlines()[1:]]
    assert ["tiny", "counts to a number"] in lines
    assert ["broken", "(cannot be loaded: No module named 'no_such_library_at_all')"] in lines
    assert lines[-1][0] == "all"


def test_all_runs_every_benchmark_and_names_the_one_that_could_not_be_measured(run_frame: Run, tiny: str) -> None:
    sources = {"tiny": tiny, "again": tiny, "broken": "import no_such_library_at_all\n"}
    finished = run_frame(sources, "all", "--json")
    printed = json.loads(finished.stdout)
    assert finished.returncode == 1
    assert printed["benchmark"] == "all"
    assert printed["results"]["tiny.count.last"] == printed["results"]["again.count.last"] == 10
    assert list(printed["detail"]["failed"]) == ["broken"]
    assert "no_such_library_at_all" in printed["detail"]["failed"]["broken"]


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        ('{"a b": 1}', "not a dotted key"),
        ('{"a.": 1}', "not a dotted key"),
        ('{"a": float("nan")}', "not a finite number"),
        ('{"a": True}', "not a finite number"),
        ('{"a": {"b": 1}}', "not a finite number"),
        ('{"a": 1}, {"quick": 1}', "the frame itself writes"),
        ('{"a": 1}, {"x": object()}', "not JSON serializable"),
        ('{"a": 1}, {}, {"b!": 1}', "not a dotted key"),
    ],
)
def test_a_result_that_cannot_be_reported_is_refused(run_frame: Run, returned: str, reason: str) -> None:
    source = "from benchmarks.result import Result\nDESCRIPTION, BARS = '', {}\n"
    source += f"def run(quick): return Result({returned})"
    finished = run_frame({"odd": source}, "odd", "--json")
    assert finished.returncode == 1
    assert finished.stdout == ""
    assert reason in finished.stderr


def test_a_module_without_the_three_parts_is_no_benchmark(run_frame: Run) -> None:
    finished = run_frame({"half": "DESCRIPTION = 'half'"}, "half")
    assert finished.returncode == 1
    assert "has no BARS, run" in finished.stderr


def test_every_registered_benchmark_loads_and_describes_itself_in_one_line() -> None:
    for name in BENCHMARKS:
        benchmark = load(name, BENCHMARKS)
        assert benchmark.DESCRIPTION.strip(), name
        assert "\n" not in benchmark.DESCRIPTION, name


@pytest.mark.parametrize(
    "error",
    [
        UnknownBenchmark("x"),
        CannotLoad("x", "why"),
        BadResult("x", "why"),
        DataMissing("x", Path("/nowhere")),
        ChildFailed(("a", "b"), 1, "text"),
    ],
)
def test_errors_keep_their_fields_through_pickling(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 — made one line above
    assert type(again) is type(error)
    assert vars(again) == vars(error)
    assert str(again) == str(error)


def test_the_module_runs_from_the_checkout() -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--help"], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    assert "--quick" in finished.stdout


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in re.split("[│┃|]", line)][1:-1]
