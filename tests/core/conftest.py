"""A home in which the chain has run once on the sample sessions; each test gets its own copy."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from instar.core.build import Built, build
from instar.core.ingest import ingest
from instar.core.learn import distill, reflect, specify
from instar.core.runtime import Runtime, runtime
from instar.core.settings import Settings

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "examples" / "order_desk" / "sessions"
TOOLS = ROOT / "examples" / "order_desk" / "tools.toml"


@pytest.fixture(scope="session")
def evolved_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Built]]:
    home = tmp_path_factory.mktemp("evolved") / "home"
    with runtime(Settings(home=home)) as rt:
        ingest(rt, [SAMPLES])
        distill(rt)
        reflection = reflect(rt)
        drafts = [build(rt, specify(rt, proposal.id).id) for proposal in reflection.proposals]
    return home, drafts


@pytest.fixture
def drafts(evolved_once: tuple[Path, list[Built]]) -> list[Built]:
    return evolved_once[1]


@pytest.fixture
def settings(evolved_once: tuple[Path, list[Built]], tmp_path: Path) -> Settings:
    shutil.copytree(evolved_once[0], tmp_path / "home")
    return Settings(home=tmp_path / "home", tools=TOOLS)


@pytest.fixture
def rt(settings: Settings) -> Iterator[Runtime]:
    with runtime(settings) as opened:
        yield opened


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Runtime]:
    with runtime(Settings(home=tmp_path / "empty")) as opened:
        yield opened


@pytest.fixture
def write_sessions(tmp_path: Path) -> Callable[..., Path]:
    def write(*sessions: dict[str, object] | str, name: str = "log.jsonl") -> Path:
        lines = [line if isinstance(line, str) else json.dumps(line) for line in sessions]
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return write
