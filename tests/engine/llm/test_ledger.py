"""Caps that hold: reserved before a call, settled after it, across processes and crashes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from instar.engine.llm.config import Model, ModelSettings, model_for
from instar.engine.llm.errors import BudgetSpent
from instar.engine.llm.ledger import NIGHT, Ledger, cost
from instar.engine.llm.requests import Request

Ask = Callable[..., Request]


@pytest.fixture
def model() -> Model:
    settings = ModelSettings(base_url="http://127.0.0.1:1/v1", input_price=0.4, output_price=1.6)
    return model_for(settings, "distill", {})


def caps(**given: float) -> ModelSettings:
    return ModelSettings.model_validate(given)


def test_a_call_that_might_exceed_the_cap_is_not_made(ledger: Ledger, model: Model, request_for: Ask) -> None:
    most = request_for().input_tokens + 300
    number = ledger.reserve(request_for(), model, caps(run_tokens=most), "run")
    with pytest.raises(BudgetSpent, match=f"the budget of {most} tokens per run"):
        ledger.reserve(request_for(), model, caps(run_tokens=most), "run")
    ledger.settle(number, model, 10, 5, estimated=False)
    ledger.release(ledger.reserve(request_for(), model, caps(run_tokens=most + 15), "run"))
    assert [(row.calls, row.input_tokens, row.output_tokens) for row in ledger.spending()] == [(1, 10, 5)]


def test_money_is_capped_as_tokens_are(ledger: Ledger, model: Model, request_for: Ask) -> None:
    price = cost(model, request_for().input_tokens, 300) / 1_000_000
    ledger.reserve(request_for(), model, caps(run_money=price), "run")
    with pytest.raises(BudgetSpent, match="money per run"):
        ledger.reserve(request_for(), model, caps(run_money=price), "run")


def test_another_run_starts_anew_but_the_night_goes_on(tmp_path: Path, model: Model, request_for: Ask) -> None:
    now = [1_000_000.0]
    ledger = Ledger(tmp_path / "book.db", now=lambda: now[0])
    most = request_for().input_tokens + 300
    limits = caps(run_tokens=most, night_tokens=2 * most)
    ledger.reserve(request_for(), model, limits, "first")
    ledger.reserve(request_for(), model, limits, "second")
    with pytest.raises(BudgetSpent, match="tokens per night"):
        ledger.reserve(request_for(), model, limits, "third")
    now[0] += NIGHT + 1
    ledger.reserve(request_for(), model, limits, "third")


def test_what_a_crash_left_open_stays_counted(tmp_path: Path, model: Model, request_for: Ask) -> None:
    most = request_for().input_tokens + 300
    Ledger(tmp_path / "book.db").reserve(request_for(), model, caps(), "run")
    again = Ledger(tmp_path / "book.db")
    with pytest.raises(BudgetSpent):
        again.reserve(request_for(), model, caps(run_tokens=most), "run")
    assert again.spending()[0].estimated == 1


def test_many_at_once_never_exceed_the_cap_together(tmp_path: Path, model: Model, request_for: Ask) -> None:
    each = request_for().input_tokens + 300
    limits = caps(run_tokens=5 * each)
    refused: list[BudgetSpent] = []

    def work() -> None:
        ledger = Ledger(tmp_path / "book.db")
        for _ in range(3):
            try:
                ledger.reserve(request_for(), model, limits, "run")
            except BudgetSpent as spent:
                refused.append(spent)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(row.calls for row in Ledger(tmp_path / "book.db").spending()) == 5
    assert len(refused) == 7


def test_verdicts_are_counted_for_each_model_and_reason(ledger: Ledger) -> None:
    for accepted, reason in ((True, ""), (False, "no quote"), (False, "no quote")):
        ledger.judged("m", "distill", "session-1", accepted=accepted, reason=reason, statement="s")
    assert [(told.accepted, told.reason, told.count) for told in ledger.verdicts()] == [
        (1, "", 1),
        (0, "no quote", 2),
    ]


def test_a_dry_run_keeps_its_book_in_memory(model: Model, request_for: Ask) -> None:
    ledger = Ledger(":memory:")
    ledger.reserve(request_for(), model, caps(), "run")
    assert ledger.spending()[0].calls == 1
