"""The form that a reviewer answers, by what the review is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCHEMAS = """
import json, sys
from instar.core.review_pages import Review, ReviewState
from instar.flows.review import form_for
review = Review(
    id="r", action=sys.argv[1], state=ReviewState.PENDING, skill="s", version="0.1.0", title="t",
    digest="sha256:" + "a" * 64, risk=sys.argv[2], opened_at="", draft="", prd="", gates="",
)
print(json.dumps(form_for(review, tuple(filter(None, sys.argv[3].split(",")))).model_json_schema()))
"""


@pytest.fixture
def schema(tmp_path: Path):  # type: ignore[no-untyped-def]
    """Prefect reads its environment when it is imported, so each form is asked for in a process of its own."""

    def ask(action: str = "publish", risk: str = "low", reviewers: str = "") -> dict[str, dict[str, object]]:
        ran = subprocess.run(
            [sys.executable, "-c", SCHEMAS, action, risk, reviewers],
            env={**os.environ, "PREFECT_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        loaded: dict[str, dict[str, object]] = json.loads(ran.stdout)
        return loaded

    return ask


def test_a_decision_and_a_name_are_needed_and_nothing_is_chosen_beforehand(schema) -> None:  # type: ignore[no-untyped-def]
    form = schema()
    assert form["required"] == ["decision", "reviewer"]
    assert form["properties"]["decision"]["enum"] == ["approve", "reject", "revise"]
    assert "default" not in form["properties"]["decision"]
    assert form["properties"]["digest"]["default"] == "sha256:" + "a" * 64
    assert "confirm" not in form["properties"]


def test_a_high_risk_asks_for_a_second_confirmation_and_allowed_reviewers_are_offered(schema) -> None:  # type: ignore[no-untyped-def]
    form = schema(risk="high", reviewers="ada,bob")
    assert form["properties"]["confirm"]["default"] == ""
    assert form["properties"]["reviewer"]["enum"] == ["ada", "bob"]


def test_the_only_allowed_reviewer_is_filled_in(schema) -> None:  # type: ignore[no-untyped-def]
    assert schema(reviewers="ada")["properties"]["reviewer"]["default"] == "ada"


def test_there_is_nothing_to_revise_in_the_form_of_a_retirement(schema) -> None:  # type: ignore[no-untyped-def]
    assert schema(action="retire")["properties"]["decision"]["enum"] == ["approve", "reject"]
