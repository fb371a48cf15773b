"""Which version of a skill is in force: rolled back, retired, brought back, and ended by something newer."""

from __future__ import annotations

from pathlib import Path

import pytest

from instar.core.build import Built
from instar.core.errors import NotFound, ReviewRefused
from instar.core.learn import catalogue, reflect
from instar.core.review_pages import draft_bytes
from instar.core.reviews import DecisionKind, decide, documents_of, get_review
from instar.core.runtime import Runtime, runtime
from instar.core.settings import Settings
from instar.core.skills import call_skill, export_skill, list_skills, load_skill, skill_history
from instar.core.standing import Change, history, retire, rollback
from instar.skills.errors import NotPublished, SkillRetired, VersionRefused
from instar.skills.package import parse_manifest, seal
from instar.skills.records import PublicationRecord


@pytest.fixture
def skill(rt: Runtime, drafts: list[Built]) -> str:
    """A skill with the versions 0.1.0 and 0.2.0, the first approved by a person."""
    decide(rt, drafts[0].review, DecisionKind.APPROVE, by="ada")
    publish_next(rt, drafts[0], "0.2.0")
    return drafts[0].skill


def publish_next(rt: Runtime, built: Built, version: str) -> None:
    draft, _, _ = documents_of(rt, get_review(rt, built.review))
    files = {path: content for path, content in draft.files.items() if path != "scripts/manifest.json"}
    manifest = parse_manifest(draft_bytes(draft)).model_copy(update={"version": version, "files": {}})
    sealed = seal({**files, "references/prd.md": f"version {version}"}, manifest)
    record = rt.registry.versions(built.skill)[0].record
    rt.registry.publish(sealed, record=record_of(sealed, record, version))


def record_of(files: dict[str, str], record: PublicationRecord, version: str) -> PublicationRecord:
    from instar.skills.package import digest

    return record.model_copy(update={"version": version, "digest": digest(files)})


def version_in_force(rt: Runtime, skill: str) -> str:
    return rt.registry.get(skill).record.version


def test_a_rollback_puts_the_version_before_in_force_and_deletes_nothing(rt: Runtime, skill: str) -> None:
    change = rollback(rt, skill, by="ada", comment="0.2.0 is slow")
    assert (change.before, change.version) == ("0.2.0", "0.1.0")
    assert version_in_force(rt, skill) == "0.1.0"
    package, manifest, entry = load_skill(rt, skill)
    assert (manifest.version, package.digest) == ("0.1.0", entry.record.digest)
    assert [row.in_force for row in skill_history(rt, skill)[0]] == [True, False]
    assert rt.registry.get(skill, "0.2.0").path.is_dir()


def test_the_decision_of_a_rollback_is_a_page_with_who_when_and_why(rt: Runtime, skill: str) -> None:
    change = rollback(rt, skill, by="ada", comment="0.2.0 is slow")
    page = rt.store.get(rt.principal, change.page)
    assert page is not None
    kept = Change.model_validate(page.content)
    assert (kept.by, kept.comment, kept.kind, kept.attested) == ("ada", "0.2.0 is slow", "rollback", "cli")
    assert page.provenance.references == (rt.registry.get(skill).record.approval,)
    assert history(rt, skill) == [kept]


def test_a_newer_publication_ends_a_rollback(rt: Runtime, skill: str, drafts: list[Built]) -> None:
    rollback(rt, skill, by="ada")
    publish_next(rt, drafts[0], "0.3.0")
    assert version_in_force(rt, skill) == "0.3.0"


def test_a_retired_skill_is_not_run_shown_or_exported_in_any_version(rt: Runtime, skill: str, tmp_path: Path) -> None:
    retire(rt, skill, by="ada", comment="nobody needs it")
    with pytest.raises(SkillRetired, match="retired by ada"):
        call_skill(rt, skill, {})
    with pytest.raises(SkillRetired):
        call_skill(rt, skill, {}, version="0.1.0")
    with pytest.raises(SkillRetired):
        export_skill(rt, skill, tmp_path / "skills")
    assert [(row.name, row.status, row.in_force) for row in list_skills(rt)] == [(skill, "retired", False)]


def test_what_was_retired_is_not_proposed_again(rt: Runtime, drafts: list[Built]) -> None:
    for built in drafts:
        decide(rt, built.review, DecisionKind.APPROVE, by="ada")
        retire(rt, built.skill, by="ada")
    assert {entry.name: entry.own for entry in catalogue(rt).entries} == {built.skill: False for built in drafts}
    assert reflect(rt).proposals == []


def test_a_retired_skill_comes_back_as_it_was(rt: Runtime, skill: str) -> None:
    retire(rt, skill, by="ada")
    rollback(rt, skill, by="bob")
    assert version_in_force(rt, skill) == "0.2.0"
    assert [(change.kind, change.by) for change in history(rt, skill)] == [("retire", "ada"), ("rollback", "bob")]


def test_only_listed_reviewers_change_what_is_in_force(settings: Settings, rt: Runtime, skill: str) -> None:
    with runtime(settings.model_copy(update={"reviewers": ("ada",)})) as strict:
        for change in (retire, rollback):
            with pytest.raises(ReviewRefused, match="mallory may not decide"):
                change(strict, skill, by="mallory")
    assert version_in_force(rt, skill) == "0.2.0"


@pytest.mark.parametrize(("to", "error"), [("0.2.0", NotFound), ("9.0.0", NotPublished)])
def test_a_rollback_to_what_is_not_there_or_is_in_force_is_refused(
    rt: Runtime, skill: str, to: str, error: type[Exception]
) -> None:
    with pytest.raises(error, match=to):
        rollback(rt, skill, by="ada", to=to)
    assert history(rt, skill) == []


def test_a_first_version_has_nothing_before_it(rt: Runtime, drafts: list[Built]) -> None:
    decide(rt, drafts[0].review, DecisionKind.APPROVE, by="ada")
    with pytest.raises(NotFound, match=r"0\.1\.0 is the first version"):
        rollback(rt, drafts[0].skill, by="ada")


def test_a_standing_that_the_store_knows_no_decision_for_puts_nothing_in_force(rt: Runtime, skill: str) -> None:
    rollback(rt, skill, by="ada")
    standing = rt.registry.standing(skill)
    assert standing is not None
    rt.registry.stand(standing.model_copy(update={"decision": "decision-of-a-stranger"}))
    with pytest.raises(NotFound, match="no decision"):
        load_skill(rt, skill)


def test_a_standing_decided_before_a_newer_version_changes_nothing(
    rt: Runtime, skill: str, drafts: list[Built]
) -> None:
    rollback(rt, skill, by="ada")
    standing = rt.registry.standing(skill)
    publish_next(rt, drafts[0], "0.3.0")
    assert standing is not None
    with pytest.raises(VersionRefused, match=r"0\.3\.0 was published meanwhile"):
        rt.registry.stand(standing)
    assert version_in_force(rt, skill) == "0.3.0"
