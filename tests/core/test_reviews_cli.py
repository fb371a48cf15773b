"""Deciding, rolling back and retiring as a user does on a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from instar.adapters.cli.main import run as run_instar
from instar.core.build import Built
from instar.core.settings import Settings

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(settings: Settings, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    def run_in(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setenv("INSTAR_HOME", str(settings.home))
        capfd.readouterr()
        code = run_instar(list(arguments))
        return code, *capfd.readouterr()

    return run_in


@pytest.fixture
def published(run: Run, drafts: list[Built]) -> str:
    assert run("review", "approve", drafts[0].review, "--by", "ada")[0] == 0
    return drafts[0].skill


def test_a_skill_is_retired_seen_so_and_brought_back(run: Run, published: str) -> None:
    code, out, _ = run("skills", "retire", published, "--by", "ada", "--comment", "nobody needs it")
    assert (code, out.strip()) == (0, f"{published}: retired (was 0.1.0)")
    code, _, err = run("skills", "run", published)
    assert code == 5
    assert err.strip() == (
        f"instar: skill '{published}' was retired by ada; `instar skills rollback {published}` brings it back"
    )
    listed = json.loads(run("skills", "list", "--json")[1])
    assert [(row["name"], row["status"], row["in_force"]) for row in listed] == [(published, "retired", False)]
    assert run("skills", "rollback", published, "--by", "bob")[:2] == (
        0,
        f"{published}: 0.1.0 is in force (was retired)\n",
    )
    code, out, _ = run("skills", "history", published)
    assert code == 0
    assert "nobody needs it" in out
    changes = json.loads(run("skills", "history", published, "--json")[1])["changes"]
    assert [(change["kind"], change["by"]) for change in changes] == [("retire", "ada"), ("rollback", "bob")]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("rollback", "{skill}", "--by", "ada"), 1, "is the first version"),
        (("rollback", "{skill}", "--by", "ada", "--to", "7.0.0"), 5, "not published as version 7.0.0"),
        (("rollback", "no-such-skill", "--by", "ada"), 5, "'no-such-skill' is not published"),
        (("retire", "no-such-skill", "--by", "ada"), 5, "'no-such-skill' is not published"),
        (("retire", "../etc", "--by", "ada"), 5, "is not published"),
        (("history", "no-such-skill"), 5, "is not published"),
        (("retire", "{skill}", "--by", " "), 5, "A decision needs a name"),
        (("retire", "{skill}"), 2, "Missing parameter: by"),
    ],
)
def test_what_cannot_be_changed_is_one_line_with_its_remedy(
    run: Run, published: str, arguments: tuple[str, ...], code: int, said: str
) -> None:
    got, out, err = run("skills", *(argument.format(skill=published) for argument in arguments))
    assert (got, out) == (code, "")
    assert said in err
    assert len(err.strip().splitlines()) == 1


def test_a_draft_that_was_sent_back_comes_back_at_once(run: Run, drafts: list[Built]) -> None:
    code, out, err = run("review", "revise", drafts[0].review, "--by", "ada", "--comment", "rename to as-we-say-it")
    assert code == 0, err
    assert "A new draft waits for review as-we-say-it-0.1.0-" in out
    pending = json.loads(run("review", "list", "--pending", "--json")[1])
    assert ("as-we-say-it", drafts[0].review) in {(row["skill"], row["revises"]) for row in pending}


def test_a_remark_that_no_engine_understands_is_said_to_be_so(run: Run, drafts: list[Built]) -> None:
    code, out, _ = run("review", "revise", drafts[0].review, "--by", "ada", "--comment", "nicer", "--json")
    assert code == 0
    told = json.loads(out)
    assert told["review"]["state"] == "revise"
    assert told["revision"]["answer"] == ""
    assert "did not understand" in told["revision"]["said"]
