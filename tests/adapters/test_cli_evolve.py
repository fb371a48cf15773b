"""The main job through the command line, with a real Prefect server."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from examples.order_desk.record import sessions

ROOT = Path(__file__).parents[2]
INSTAR = Path(sys.executable).with_name("instar")
SAMPLES = ROOT / "examples" / "order_desk" / "sessions"
TOOLS = ROOT / "examples" / "order_desk" / "tools.toml"
GATES = ["format", "lint", "policy", "replay", "tests", "strength", "regression"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, instar) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("cli") / "home"
    yield place
    instar(place, "down")
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="module")
def evolved(home, instar) -> dict[str, object]:
    ran = instar(home, "evolve", SAMPLES, "--tools", TOOLS, "--json")
    assert ran.code == 0, ran.err
    assert "Traceback" not in ran.err
    return ran.json


def test_sessions_go_in_and_tested_drafts_come_out(evolved) -> None:
    assert evolved["ingest"]["new"] > 0
    assert evolved["distill"]["memories"] > 0
    assert evolved["reflection"]["patterns"]
    assert evolved["reflection"]["failure_clusters"]
    assert evolved["drafts"]
    for draft in evolved["drafts"]:
        assert draft["verdict"] == "pass"
        assert draft["review"]
        assert [r["gate"] for r in draft["report"]["results"]] == GATES


def test_the_run_and_its_artifacts_are_in_the_prefect_server(evolved, home, instar) -> None:
    runs = instar(home, "prefect", "flow-run", "ls")
    assert runs.code == 0, runs.err
    assert "evolve" in runs.out
    artifacts = instar(home, "prefect", "artifact", "ls")
    assert "reflection" in artifacts.out
    assert "gates-" in artifacts.out


def test_evolving_again_adds_nothing_and_reads_as_a_story(evolved, home, instar) -> None:
    again = instar(home, "evolve", SAMPLES)
    assert again.code == 0, again.err
    for words in (
        "Sessions",
        "Memories: 0 new",
        "Patterns",
        "Failures",
        "Proposal:",
        "Draft",
        "replay",
        "keeps running",
    ):
        assert words in again.out, again.out
    assert f"0 new, 0 grown, 0 revised, {evolved['ingest']['new']} unchanged" in again.out
    reviews = {draft["review"] for draft in evolved["drafts"]}
    assert {row["id"] for row in instar(home, "review", "list", "--json").json} == reviews
    assert all(f"Review waits: {review}" in again.out for review in reviews)


def test_an_approved_skill_is_listed_and_runs(evolved, home, instar) -> None:
    review = evolved["drafts"][0]["review"]
    shown = instar(home, "review", "show", review, "--json").json
    decided = instar(home, "review", "approve", review, "--by", "ada", "--comment", "useful", "--json")
    assert decided.json["state"] == "published", decided.err
    (skill,) = instar(home, "skills", "list", "--json").json
    assert (skill["name"], skill["status"]) == (evolved["drafts"][0]["skill"], "intact")
    arguments = json.dumps(shown["prd"]["folds"][0]["cases"][0]["arguments"])
    ran = instar(home, "skills", "run", skill["name"], "--tools", TOOLS, "--arguments", arguments)
    assert ran.code == 0, ran.err
    assert json.loads(ran.out) == shown["prd"]["folds"][0]["cases"][0]["returns"]


def test_ctrl_c_in_the_middle_is_one_line_and_a_rerun_completes(evolved, home, instar, tmp_path) -> None:
    log = tmp_path / "many.jsonl"
    log.write_text("".join(json.dumps(session) + "\n" for session in islice(sessions(3, 400), 400)))
    command = [INSTAR, "evolve", log]
    environment = {**os.environ, "INSTAR_HOME": str(home)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as ran:
        assert ran.stderr is not None
        first = ran.stderr.readline()
        ran.send_signal(signal.SIGINT)
        rest = ran.stderr.read()
    assert "ingest" in first
    assert ran.returncode == 130, rest
    assert [line for line in rest.splitlines() if line.startswith("instar: Interrupted")], rest
    assert "Traceback" not in rest
    again = instar(home, "ingest", log, "--json").json
    assert 0 < again["new"] < 400
    assert again["new"] + again["unchanged"] == 400


def test_status_tells_the_server_and_what_waits(evolved, home, instar) -> None:
    ran = instar(home, "status", "--json")
    assert ran.code == 3  # no worker: nothing would begin by itself
    assert (ran.json["state"], ran.json["worker"], ran.json["alarms"]) == ("running", "stopped", [])
