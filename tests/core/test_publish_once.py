"""Publishing, rolling back and retiring, stopped by SIGKILL at every step that lasts."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from instar.core import standing
from instar.core.build import Built
from instar.core.errors import AlreadyDecided, NotFound
from instar.core.opening import open_retirement
from instar.core.reviews import DecisionKind, ReviewState, decide, get_review, list_reviews
from instar.core.runtime import Runtime, runtime
from instar.core.settings import Settings
from instar.core.skills import list_skills
from instar.core.standing import history, retire, settle
from instar.memstore import open_store
from instar.skills.errors import SkillRetired

PUBLISHING = (
    "decide",
    "decided",
    "stage",
    "record",
    "reveal",
    "flush",
    "done",
    "publication",
    "published",
)
STANDING = ("decide", "decided", "stand", "stood", "publication", "published")

Act = Callable[[Runtime, str], None]


def approve(rt: Runtime, review_id: str) -> None:
    decide(rt, review_id, DecisionKind.APPROVE, by="ada")


def take_out(rt: Runtime, skill: str) -> None:
    retire(rt, skill, by="ada")


def die_at(step: str, settings: Settings, act: Act, about: str) -> None:
    def stop(name: str) -> None:
        if name == step:
            os.kill(os.getpid(), signal.SIGKILL)

    act(Runtime(settings, open_store(settings.database), stop), about)


def killed_at(step: str, settings: Settings, act: Act, about: str) -> None:
    child = multiprocessing.get_context("fork").Process(target=die_at, args=(step, settings, act, about))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL


def steps_of(settings: Settings, act: Act, about: str) -> tuple[str, ...]:
    seen: list[str] = []
    store = open_store(settings.database)
    try:
        act(Runtime(settings, store, seen.append), about)
    finally:
        store.close()
    return tuple(dict.fromkeys(seen))


@dataclass(frozen=True)
class Outcome:
    """What is the same however often it was tried: files, and pages without their times."""

    files: dict[str, bytes]
    pages: list[str]
    skills: list[tuple[str, str, str]]


def outcome(settings: Settings) -> Outcome:
    root = settings.home / "skills"
    with runtime(settings) as rt:
        reviews = list_reviews(rt)
        pages = sorted(page.id for page in rt.store.find(rt.principal, scope="local") if page.kind != "step")
        skills = [(row.name, row.version, row.status) for row in list_skills(rt)]
    assert all(review.problem == "" for review in reviews)
    kept = [path for path in root.rglob("*") if path.is_file() and not {".lock", ".staging"} & {*path.parts}]
    files = {str(path.relative_to(root)): path.read_bytes() for path in kept if ".records" not in path.parts}
    return Outcome(files, pages, skills)


@pytest.fixture
def calm(evolved_once: tuple[Path, list[Built]], tmp_path: Path) -> Settings:
    """The same home, for the same work that nobody disturbs."""
    shutil.copytree(evolved_once[0], tmp_path / "calm")
    return Settings(home=tmp_path / "calm")


@pytest.mark.parametrize("step", PUBLISHING)
def test_an_approval_killed_at_any_step_is_published_once(
    settings: Settings, calm: Settings, drafts: list[Built], step: str
) -> None:
    review = drafts[0].review
    killed_at(step, settings, approve, review)
    with runtime(settings) as rt:
        if step == "decide":  # nothing was decided yet: the person decides again
            assert get_review(rt, review).state is ReviewState.PENDING
            approve(rt, review)
        assert get_review(rt, review).state is ReviewState.PUBLISHED
    with runtime(calm) as rt:
        approve(rt, review)
    assert outcome(settings) == outcome(calm)
    assert [row[0] for row in outcome(calm).skills] == [drafts[0].skill]


@pytest.mark.parametrize("step", STANDING)
def test_a_retirement_killed_at_any_step_happens_once(
    settings: Settings, calm: Settings, drafts: list[Built], step: str
) -> None:
    skill = drafts[0].skill
    for each in (settings, calm):
        with runtime(each) as rt:
            approve(rt, drafts[0].review)
    killed_at(step, settings, take_out, skill)
    with runtime(settings) as rt:
        if step == "decide":
            assert list_skills(rt)[0].status == "intact"
            take_out(rt, skill)
        settle(rt, skill)
        with pytest.raises(SkillRetired):
            rt.registry.get(skill)
    with runtime(calm) as rt:
        take_out(rt, skill)
    assert outcome(settings) == outcome(calm)


@pytest.mark.parametrize("step", STANDING)
def test_a_reviewed_retirement_killed_at_any_step_happens_once(
    settings: Settings,
    calm: Settings,
    drafts: list[Built],
    step: str,
    propose_to_retire: Callable[[Runtime, str], str],
) -> None:
    for each in (settings, calm):
        with runtime(each) as rt:
            approve(rt, drafts[0].review)
            review, _ = open_retirement(rt, propose_to_retire(rt, drafts[0].skill))
    killed_at(step, settings, approve, review)
    with runtime(settings) as rt:
        if step == "decide":
            approve(rt, review)
        assert get_review(rt, review).state is ReviewState.RETIRED
    with runtime(calm) as rt:
        approve(rt, review)
    assert outcome(settings) == outcome(calm)


def test_two_retirements_at_once_are_one_and_the_other_is_told(settings: Settings, drafts: list[Built]) -> None:
    with runtime(settings) as rt:
        approve(rt, drafts[0].review)
    barrier, told = threading.Barrier(2), []

    def vote(by: str) -> None:
        with runtime(settings) as own:
            barrier.wait()
            try:
                retire(own, drafts[0].skill, by=by)
            except (AlreadyDecided, NotFound) as error:
                told.append(str(error))

    votes = [threading.Thread(target=vote, args=(by,)) for by in ("ada", "bob")]
    for thread in votes:
        thread.start()
    for thread in votes:
        thread.join()
    assert len(told) == 1
    with runtime(settings) as rt:
        assert len(history(rt, drafts[0].skill)) == 1


def test_who_looked_before_a_retirement_and_decides_after_it_is_told(
    settings: Settings, drafts: list[Built], monkeypatch: pytest.MonkeyPatch
) -> None:
    with runtime(settings) as rt:
        approve(rt, drafts[0].review)
    looked = standing._known

    def overtaken(rt: Runtime, skill: str) -> object:
        monkeypatch.setattr(standing, "_known", looked)
        seen = looked(rt, skill)
        with runtime(settings) as other:
            retire(other, skill, by="bob")
        return seen

    monkeypatch.setattr(standing, "_known", overtaken)
    with runtime(settings) as rt, pytest.raises(AlreadyDecided, match="retire by bob"):
        retire(rt, drafts[0].skill, by="ada")
    with runtime(settings) as rt:
        assert [change.by for change in history(rt, drafts[0].skill)] == ["bob"]


def test_the_steps_of_the_kill_tests_are_all_the_steps(settings: Settings, drafts: list[Built]) -> None:
    assert steps_of(settings, approve, drafts[0].review) == PUBLISHING
    assert steps_of(settings, take_out, drafts[0].skill) == STANDING
