"""A whole night with a model behind it: through the store, the gates and the review."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from instar.core import records
from instar.core.build import Built, build
from instar.core.errors import NotEvaluated, PartMissing
from instar.core.ingest import ingest_sessions
from instar.core.learn import distill, reflect, specify
from instar.core.models import ledger_of
from instar.core.runtime import Runtime, runtime
from instar.core.settings import Settings
from instar.engine.llm.config import ModelSettings
from instar.engine.llm.played import CODE, GOOD, WRONG, Answers, parcel_session, playing
from instar.engine.llm.testing import ModelServer, refuse, serving
from instar.sandbox.report import Verdict

Night = Callable[..., AbstractContextManager[tuple[Runtime, ModelServer]]]


@pytest.fixture
def night(tmp_path: Path) -> Night:
    @contextmanager
    def open_night(answers: Answers = GOOD, **given: object) -> Iterator[tuple[Runtime, ModelServer]]:
        with serving(playing(answers)) as server:
            models = ModelSettings.model_validate(
                {"base_url": server.url, "timeout_seconds": 30, **dict(given.pop("models", {}))}  # type: ignore[call-overload]
            )
            chosen = {"engine": "hybrid", "home": tmp_path / "home", "models": models} | given
            with runtime(Settings.model_validate(chosen)) as rt:
                yield rt, server

    return open_night


def built(rt: Runtime) -> list[Built]:
    ingest_sessions(rt, [parcel_session(n) for n in range(9)])
    distill(rt)
    return [build(rt, specify(rt, proposal.id).id) for proposal in reflect(rt).proposals]


def test_a_skill_that_does_not_compile_passes_every_gate_and_waits_for_a_person(night: Night) -> None:
    with night() as (rt, _):
        (one,) = built(rt)
        assert {
            result.gate: result.verdict for result in one.report.results if result.verdict is not Verdict.PASS
        } == {}
        assert one.review
        replay = next(result for result in one.report.results if result.gate == "replay")
        assert (replay.counts["cases_exact"], replay.counts["exact"], replay.counts["wrong"]) == (6, 3, 0)
        (page,) = rt.store.find(rt.principal, scope="local", kind=records.DRAFT)
        assert str(page.content["made_by"]).startswith("gpt-4.1-mini with model_code@")
    roles = {row.role for row in ledger_of(rt.settings).spending()}
    assert roles == {"reflect", "judge", "specify", "code"}


def test_a_wrong_program_is_repaired_from_the_report(night: Night) -> None:
    answers = iter([WRONG, CODE])
    with night({**GOOD, "coded": lambda _: {"code": next(answers)}}) as (rt, _):
        (one,) = built(rt)
        assert one.verdict is Verdict.PASS


def test_a_program_that_stays_wrong_reaches_nobody(night: Night) -> None:
    with night({**GOOD, "coded": lambda _: {"code": WRONG}}) as (rt, server):
        (one,) = built(rt)
        assert one.verdict is Verdict.FAIL
        assert one.review == ""
        assert not rt.registry.list()
        coded = sum('"coded"' in str(asked).replace("'", '"') for asked in server.asked)
        assert coded == 2


def test_a_budget_that_is_spent_leaves_the_rest_for_next_time(night: Night) -> None:
    chosen = {"engine": "model"}
    with night(**chosen, models={"run_tokens": 6_000, "together": 1}) as (rt, _):
        ingest_sessions(rt, [parcel_session(n) for n in range(9)])
        report = distill(rt)
        assert 0 < report.left_for_later < 9
        assert report.sessions + report.left_for_later == 9
        assert "tokens per run" in next(iter(report.reasons))
        assert sum(row.input_tokens + row.output_tokens for row in ledger_of(rt.settings).spending()) <= 6_000
    with night(**chosen) as (rt, _):
        again = distill(rt)
        assert (again.sessions, again.left_for_later) == (report.left_for_later, 0)


def test_a_refusal_is_one_reason_and_nothing_is_stored(night: Night) -> None:
    with night(engine="model") as (rt, server):
        server.otherwise = refuse
        ingest_sessions(rt, [parcel_session(0)])
        report = distill(rt)
        assert (report.sessions, report.left_for_later) == (0, 1)
        assert "it refused" in next(iter(report.reasons))
        assert list(rt.store.find(rt.principal, scope="local", kind=records.MEMORY)) == []


def test_memories_say_who_made_them_and_rejections_are_counted(night: Night) -> None:
    lying = {**dict(GOOD["distilled"]("")["memories"][0]), "quote": "nobody said this"}  # type: ignore[arg-type,call-overload,index]
    both = {"memories": [GOOD["distilled"]("")["memories"][0], lying], "instructions_found": []}  # type: ignore[call-overload,index]
    with night({**GOOD, "distilled": lambda _: both}, engine="model") as (rt, _):  # type: ignore[dict-item,return-value]
        ingest_sessions(rt, [parcel_session(0)])
        distill(rt)
        pages = list(rt.store.find(rt.principal, scope="local", kind=records.MEMORY))
        made = [str(page.content.get("made_by")) for page in pages]
        assert sum(one.startswith("gpt-4.1-mini with model_distill@") for one in made) == 1
        told = {told.reason: told.count for told in ledger_of(rt.settings).verdicts()}
        assert told == {"": 1, "quotes what is not there": 1}


def test_without_an_endpoint_a_model_is_a_missing_part_and_auto_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    hybrid = Settings(home=tmp_path / "a", engine="hybrid")
    with runtime(hybrid) as rt, pytest.raises(PartMissing, match="set OPENAI_API_KEY"):
        rt.engine.distill(parcel_session(0))
    with runtime(Settings(home=tmp_path / "b", engine="auto")) as rt:
        assert rt.asker is None
        assert rt.engine.distill(parcel_session(0))


def test_a_dry_run_asks_no_model(tmp_path: Path) -> None:
    models = ModelSettings(base_url="http://127.0.0.1:9/v1")
    with runtime(Settings(home=tmp_path / "a", engine="model", models=models), dry_run=True) as rt:
        assert rt.asker is None


def test_a_requirement_that_cannot_be_written_is_not_evaluated(night: Night) -> None:
    nothing = {**dict(GOOD["recordeduse"]("")), "applies": False}  # type: ignore[arg-type]
    answers = {**GOOD, "recordeduse": lambda _: nothing}
    with night(answers) as (rt, _), pytest.raises(NotEvaluated, match="could be proven"):
        built(rt)


def test_a_limiter_that_is_handed_in_is_entered_around_each_call(tmp_path: Path) -> None:
    inside: list[int] = []
    widest: list[int] = []

    @contextmanager
    def one() -> Iterator[None]:
        inside.append(1)
        widest.append(len(inside))
        try:
            yield
        finally:
            inside.pop()

    with serving(playing(GOOD)) as server:
        models = ModelSettings(base_url=server.url, timeout_seconds=30)
        settings = Settings(home=tmp_path / "home", engine="model", models=models)
        with runtime(settings, limiter=one) as rt:
            built(rt)
        assert len(widest) == len(server.asked)
    assert set(widest) == {1}
    assert not (settings.home / "model-slots").exists()
