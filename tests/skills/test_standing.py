import pytest

from instar.skills.errors import NotPublished, RecordRefused, SkillRetired
from instar.skills.package import digest
from instar.skills.registry import Registry
from instar.skills.standing import Standing


@pytest.fixture
def registry(tmp_path, make_package, record_for):
    registry = Registry(tmp_path)
    for version in ("0.1.0", "0.2.0"):
        files = make_package(version=version, body=version)
        registry.publish(files, record=record_for(files, version=version))
    return registry


def standing(registry, version: str) -> Standing:
    entry = registry.versions("order-status")[0].record
    return Standing(
        name="order-status",
        version=version,
        digest=entry.digest if version else "",
        after="0.2.0",
        decision="decision-1",
        by="ada",
        at=entry.at,
    )


def test_a_standing_puts_an_older_version_in_force_until_a_newer_one_is_published(registry, make_package, record_for):
    registry.stand(standing(registry, "0.1.0"))
    registry.stand(standing(registry, "0.1.0"))
    assert [entry.record.version for entry in registry.list()] == ["0.1.0"]
    newer = make_package(version="0.3.0")
    registry.publish(newer, record=record_for(newer, version="0.3.0"))
    assert registry.get("order-status").record.digest == digest(newer)
    assert registry.standing("order-status") is None


def test_a_retired_skill_is_not_listed_and_its_versions_stay(registry):
    registry.stand(standing(registry, ""))
    assert registry.list() == ()
    assert [entry.record.name for entry in registry.retired()] == ["order-status"]
    with pytest.raises(SkillRetired, match="by ada"):
        registry.get("order-status")
    assert registry.get("order-status", "0.1.0").path.is_dir()


@pytest.mark.parametrize("text", ["{", "{}", '{"name": "other"}'])
def test_a_standing_that_cannot_be_read_is_an_error_and_not_an_absence(registry, text):
    registry.stand(standing(registry, "0.1.0"))
    (registry.root / ".records" / "order-status" / "standing.json").write_text(text)
    with pytest.raises(RecordRefused):
        registry.get("order-status")


def test_a_standing_about_other_bytes_is_refused(registry):
    wrong = standing(registry, "0.1.0").model_copy(update={"digest": "sha256:" + "0" * 64})
    with pytest.raises(NotPublished):
        registry.stand(wrong)
    assert registry.get("order-status").record.version == "0.2.0"
