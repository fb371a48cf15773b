"""What doctor says of the engine and of the wheels that it may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from instar.core.doctor import Check, Condition, examine
from instar.core.settings import Settings
from instar.engine.llm.config import ModelSettings


@pytest.fixture(autouse=True)
def no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def part(name: str, tmp_path: Path, **given: object) -> Check:
    settings = Settings.model_validate({"home": tmp_path / "home", "host_skills": (), **given})
    return next(check for check in examine(settings) if check.part == name)


def test_the_engine_that_is_set_and_where_it_asks_are_named(tmp_path: Path) -> None:
    models = ModelSettings(base_url="http://127.0.0.1:9/v1", model="tiny")
    assert "no model" in part("engine", tmp_path).detail
    assert part("engine", tmp_path, engine="hybrid", models=models).detail == "hybrid: tiny at 127.0.0.1:9; not asked"
    missing = part("engine", tmp_path, engine="model")
    assert (missing.condition, "set OPENAI_API_KEY" in missing.detail) == (Condition.MISSING, True)
    assert "answers from" in part("engine", tmp_path, engine="model", replay=tmp_path).detail


def test_wheels_that_are_left_out_are_named_with_the_reason(tmp_path: Path) -> None:
    assert part("wheels", tmp_path).condition is Condition.ABSENT
    pins = tmp_path / "requirements.txt"
    pins.write_text(f"handy==1.0 --hash=sha256:{'0' * 64}\n")
    found = part("wheels", tmp_path, wheels=tmp_path)
    assert found.detail == "allowed: none; not handy: its wheel is not in the folder"
    pins.write_text("handy\n")
    broken = part("wheels", tmp_path, wheels=tmp_path)
    assert (broken.condition, "generate-hashes" in broken.remedy) == (Condition.MISSING, True)
