"""A home of one's own, and readers of what was recorded in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from instar.adapters.capture import Recorder
from instar.core.runtime import Runtime, runtime
from instar.core.settings import Settings
from instar.memstore import Page

PROJECT = "shop"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


@pytest.fixture
def rt(settings: Settings) -> Iterator[Runtime]:
    with runtime(settings) as opened:
        yield opened


Start = Callable[..., Recorder]


@pytest.fixture
def start(settings: Settings) -> Iterator[Start]:
    """Start a recorder; those that a test leaves open are closed."""
    begun: list[Recorder] = []

    def begin(session: str = "s1", *, budget: int = 2000, task: str = "send the orders", **more: object) -> Recorder:
        recorder = Recorder(settings, agent="test", session=session, project=PROJECT, task=task, budget=budget)
        recorder.start(**more)  # type: ignore[arg-type]
        begun.append(recorder)
        return recorder

    yield begin
    for recorder in begun:
        recorder.close()


Call = tuple[str, object, str, object]


@pytest.fixture
def calls(settings: Settings) -> Callable[[], list[Call]]:
    """Tool, arguments, status, and value or error of every recorded call, in the order in which they began."""

    def read() -> list[Call]:
        with runtime(settings) as rt:
            pages = rt.store.find(rt.principal, scope="local", kind="tool-call")
            return [_call(page) for page in sorted(pages, key=lambda page: page.created_at)]

    return read


def _call(page: Page) -> Call:
    content = page.content
    status = str(content.get("status", page.state.value))
    return str(content["tool"]), content["arguments"], status, content.get("error") or content.get("value")


@pytest.fixture
def spooled(settings: Settings) -> Callable[[], list[Path]]:
    """The files in the spool that hold events."""
    return lambda: [path for path in (settings.home / "spool").glob("*") if path.suffix in (".jsonl", ".taken")]
