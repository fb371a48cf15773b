"""What went to models, as a user reads it; and a night that asks for a model where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from instar.core.ingest import ingest_sessions
from instar.core.learn import distill, reflect
from instar.core.runtime import runtime
from instar.core.settings import Settings
from instar.engine.llm.config import ModelSettings
from instar.engine.llm.ledger import Ledger
from instar.engine.llm.played import GOOD, parcel_session, playing
from instar.engine.llm.testing import serving


@pytest.fixture
def spent(tmp_path: Path) -> None:
    with serving(playing(GOOD)) as server:
        models = ModelSettings(base_url=server.url, input_price=1.0, output_price=2.0)
        with runtime(Settings(home=tmp_path / "home", engine="model", models=models, host_skills=())) as rt:
            ingest_sessions(rt, [parcel_session(n) for n in range(4)])
            distill(rt)
            reflect(rt)


@pytest.mark.usefixtures("spent")
def test_spending_is_shown_by_role_model_and_document(run) -> None:
    told = run("spend", "--json").json
    roles = [row["role"] for row in told["spent"]]
    assert {"distill", "reflect", "judge"} == set(roles)
    assert all(row["money"] > 0 and row["estimated_calls"] == 0 for row in told["spent"])
    assert told["statements"] == [{"model": "gpt-4.1-mini", "accepted": True, "reason": "", "count": 4}]
    page = run("spend")
    assert page.code == 0
    assert "gpt-4.1-mini: 4 statements accepted" in page.out


def test_what_was_rejected_is_listed_with_the_reason(run, tmp_path: Path) -> None:
    assert "Nothing was rejected" in run("spend", "--rejected").out
    (tmp_path / "home").mkdir(exist_ok=True)
    ledger = Ledger(tmp_path / "home" / "spend.db")
    ledger.judged("m", "distill", "session-1", accepted=False, reason="quotes nothing", statement="It \x1b[31mworked")
    ledger.close()
    (row,) = run("spend", "--rejected", "--json").json["rejected"]
    assert (row["document"], row["reason"]) == ("session-1", "quotes nothing")
    shown = run("spend", "--rejected").out
    assert "quotes nothing" in shown
    assert "\x1b" not in shown


def test_a_home_that_asked_no_model_says_so(run) -> None:
    assert run("spend", "--json").json == {"spent": [], "statements": []}
    assert "no model was asked" in run("spend").out


def test_a_model_that_is_not_configured_is_one_line_with_the_remedy(run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("INSTAR_ENGINE", "model")
    done = run("reflect")
    assert done.code == 3
    assert "set OPENAI_API_KEY" in done.err
    assert "Traceback" not in done.err
