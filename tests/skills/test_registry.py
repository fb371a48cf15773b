import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from instar.skills.errors import (
    ExportRefused,
    NameTaken,
    NotPublished,
    RecordRefused,
    SkillChanged,
    SkillQuarantined,
    VersionRefused,
)
from instar.skills.package import digest, read_package
from instar.skills.registry import Registry, Status

STEPS = ("stage", "record", "reveal", "flush", "done")


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_published_skill_is_listed_and_loads_with_the_approved_bytes(tmp_path, make_package, record_for):
    registry, files = Registry(tmp_path), make_package()
    path = registry.publish(files, record=record_for(files))
    assert path == tmp_path / "order-status" / "0.1.0"
    assert [entry.record for entry in registry.list()] == [record_for(files)]
    assert registry.get("order-status").path == path
    assert registry.load("order-status", approved_digest=digest(files)).digest == digest(files)
    assert [check.status for check in registry.verify()] == [Status.INTACT]


def test_publishing_the_same_digest_again_changes_nothing(tmp_path, make_package, record_for):
    registry, files = Registry(tmp_path), make_package()
    registry.publish(files, record=record_for(files))
    before = tree(tmp_path)
    registry.publish(files, record=record_for(files))
    assert tree(tmp_path) == before


def test_the_same_version_with_other_bytes_is_refused(tmp_path, make_package, record_for):
    registry, files = Registry(tmp_path), make_package()
    registry.publish(files, record=record_for(files))
    other = make_package(body="other")
    with pytest.raises(VersionRefused, match="other bytes"):
        registry.publish(other, record=record_for(other))
    assert registry.load("order-status", approved_digest=digest(files))


def test_a_name_is_never_taken_over_by_another_lineage(tmp_path, make_package, record_for):
    registry, files = Registry(tmp_path), make_package()
    registry.publish(files, record=record_for(files))
    other = make_package(version="9.0.0", lineage="prd-2")
    with pytest.raises(NameTaken):
        registry.publish(other, record=record_for(other, version="9.0.0", lineage="prd-2"))


def test_versions_only_rise_and_are_compared_as_numbers(tmp_path, make_package, record_for):
    registry = Registry(tmp_path)
    for version in ("0.9.0", "0.10.0"):
        files = make_package(version=version)
        registry.publish(files, record=record_for(files, version=version))
    low = make_package(version="0.9.5")
    with pytest.raises(VersionRefused, match=r"not higher than 0\.10\.0"):
        registry.publish(low, record=record_for(low, version="0.9.5"))
    assert registry.get("order-status").record.version == "0.10.0"
    assert registry.get("order-status", "0.9.0").record.version == "0.9.0"


@pytest.mark.parametrize("field", ["digest", "name", "version", "lineage"])
def test_a_record_about_something_else_is_refused(tmp_path, make_package, record_for, field):
    registry, files = Registry(tmp_path), make_package()
    wrong = {"digest": "sha256:" + "0" * 64, "name": "other", "version": "0.2.0", "lineage": "prd-9"}[field]
    with pytest.raises(RecordRefused, match=field):
        registry.publish(files, record=record_for(files).model_copy(update={field: wrong}))
    assert registry.list() == ()


@pytest.mark.parametrize("name", ["../up", "", "a/b", ".records", "Order-Status", "missing"])
def test_a_name_that_was_never_published_is_not_found(tmp_path, make_package, record_for, name):
    registry, files = Registry(tmp_path), make_package()
    registry.publish(files, record=record_for(files))
    with pytest.raises(NotPublished):
        registry.get(name)
    with pytest.raises(NotPublished):
        registry.load(name, approved_digest=digest(files))


def test_a_digest_that_was_not_approved_does_not_load(tmp_path, make_package, record_for):
    registry, files = Registry(tmp_path), make_package()
    registry.publish(files, record=record_for(files))
    with pytest.raises(NotPublished, match="sha256:00"):
        registry.load("order-status", approved_digest="sha256:" + "0" * 64)


def edit(folder: Path) -> str:
    (folder / "SKILL.md").chmod(0o644)
    (folder / "SKILL.md").write_text("edited by hand")
    return "SKILL.md"


def add(folder: Path) -> str:
    (folder / "new.txt").write_text("new")
    return "new.txt"


def remove(folder: Path) -> str:
    (folder / "tests/cases/one.json").unlink()
    return "tests/cases/one.json"


def link(folder: Path) -> str:
    (folder / "SKILL.md").unlink()
    (folder / "SKILL.md").symlink_to("/etc/passwd")
    return "SKILL.md"


@pytest.mark.parametrize("change", [edit, add, remove, link])
def test_a_changed_skill_is_named_moved_aside_unchanged_and_not_run(tmp_path, make_package, record_for, change):
    registry, files = Registry(tmp_path), make_package()
    path = registry.publish(files, record=record_for(files))
    changed = change(path)
    assert [(found.status, found.files) for found in registry.verify()] == [(Status.CHANGED, (changed,))]
    left = tree(path)
    with pytest.raises(SkillChanged) as caught:
        registry.load("order-status", approved_digest=digest(files))
    assert caught.value.files == (changed,)
    assert tree(Path(caught.value.quarantine)) == left
    assert not path.exists()
    with pytest.raises(SkillQuarantined):
        registry.load("order-status", approved_digest=digest(files))
    assert [found.status for found in registry.verify()] == [Status.QUARANTINED]


def test_an_older_version_never_silently_replaces_a_quarantined_one(tmp_path, make_package, record_for):
    registry = Registry(tmp_path)
    old, new = make_package(), make_package(version="0.2.0")
    registry.publish(old, record=record_for(old))
    edit(registry.publish(new, record=record_for(new, version="0.2.0")))
    with pytest.raises(SkillChanged):
        registry.load("order-status", approved_digest=digest(new))
    with pytest.raises(SkillQuarantined):
        registry.get("order-status")


def test_publishing_the_approved_bytes_again_restores_a_quarantined_skill(tmp_path, make_package, record_for):
    registry, files = Registry(tmp_path), make_package()
    edit(registry.publish(files, record=record_for(files)))
    with pytest.raises(SkillChanged) as caught:
        registry.publish(files, record=record_for(files))
    registry.publish(files, record=record_for(files))
    assert registry.load("order-status", approved_digest=digest(files))
    assert Path(caught.value.quarantine).is_dir(), "the edited files are still there to look at"


def test_a_folder_removed_by_hand_is_reported_as_missing(tmp_path, make_package, record_for):
    registry, files = Registry(tmp_path), make_package()
    path = registry.publish(files, record=record_for(files))
    path.rename(tmp_path / "elsewhere")
    assert [found.status for found in registry.verify()] == [Status.MISSING]


def test_an_unreadable_record_is_an_error_and_not_an_absence(tmp_path, make_package, record_for):
    registry, files = Registry(tmp_path), make_package()
    registry.publish(files, record=record_for(files))
    (tmp_path / ".records" / "order-status" / "0.1.0.json").write_text("{")
    with pytest.raises(RecordRefused):
        registry.get("order-status")


def test_files_that_no_record_knows_are_not_overwritten(tmp_path, make_package, record_for):
    registry, files = Registry(tmp_path), make_package()
    (tmp_path / "order-status" / "0.1.0").mkdir(parents=True)
    with pytest.raises(VersionRefused, match="no record"):
        registry.publish(files, record=record_for(files))


def _publish_and_die(root: Path, files: dict[str, str], record: object, step: str) -> None:
    def stop(name: str) -> None:
        if name == step:
            os.kill(os.getpid(), signal.SIGKILL)

    Registry(root, on_step=stop).publish(files, record=record)  # type: ignore[arg-type]


@pytest.mark.parametrize("step", STEPS)
def test_a_process_killed_at_any_step_leaves_the_old_or_the_new_version_whole(
    tmp_path, make_package, record_for, step
):
    registry = Registry(tmp_path)
    old, new = make_package(), make_package(version="0.2.0", body="new")
    registry.publish(old, record=record_for(old))
    child = multiprocessing.get_context("fork").Process(
        target=_publish_and_die, args=(tmp_path, new, record_for(new, version="0.2.0"), step)
    )
    child.start()
    child.join(20)
    assert child.exitcode == -signal.SIGKILL
    newest = registry.get("order-status")
    assert newest.record.digest == digest(new if step in ("flush", "done") else old)
    assert read_package(newest.path).digest == newest.record.digest
    registry.publish(new, record=record_for(new, version="0.2.0"))
    assert registry.load("order-status", approved_digest=digest(new))
    assert registry.load("order-status", approved_digest=digest(old))


def test_the_steps_of_the_kill_test_are_all_the_steps(tmp_path, make_package, record_for):
    seen: list[str] = []
    files = make_package()
    Registry(tmp_path, on_step=seen.append).publish(files, record=record_for(files))
    assert tuple(seen) == STEPS


def _publish(root: Path, files: dict[str, str], record: object) -> None:
    slow = Registry(root, on_step=lambda step: time.sleep(0.02))
    try:
        slow.publish(files, record=record)  # type: ignore[arg-type]
    except VersionRefused:
        os._exit(7)


def test_of_two_processes_with_different_bytes_for_one_version_exactly_one_wins(tmp_path, make_package, record_for):
    candidates = [make_package(body=str(number)) for number in range(4)]
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=_publish, args=(tmp_path, files, record_for(files))) for files in candidates]
    for child in children:
        child.start()
    for child in children:
        child.join(20)
    assert sorted(child.exitcode or 0 for child in children) == [0, 7, 7, 7]
    winner = Registry(tmp_path).get("order-status")
    assert winner.record.digest in {digest(files) for files in candidates}
    assert read_package(winner.path).digest == winner.record.digest


def test_an_export_is_the_same_bytes_under_the_skills_own_name(tmp_path, make_package, record_for):
    registry, files = Registry(tmp_path / "home"), make_package()
    registry.publish(files, record=record_for(files))
    target = tmp_path / "project" / ".agents" / "skills"
    path = registry.export("order-status", target, approved_digest=digest(files))
    assert path == target / "order-status"
    assert read_package(path).digest == digest(files)
    newer = make_package(version="0.2.0")
    registry.publish(newer, record=record_for(newer, version="0.2.0"))
    registry.export("order-status", target, approved_digest=digest(newer))
    assert read_package(path).digest == digest(newer)
    assert [child.name for child in target.iterdir()] == ["order-status"]


EXPORT_TO_A_FULL_DISK = """
import errno, sys
from pathlib import Path
from instar.skills.export import export_package
from instar.skills.package import read_package
disk, package = Path(sys.argv[1]), read_package(Path(sys.argv[2]))
target, filling = disk / "skills", disk / "filling"
target.mkdir()
with filling.open("wb", buffering=0) as file:
    try:
        while file.write(bytes(4096)):
            pass
    except OSError:
        file.truncate(file.tell() - 4096)
try:
    export_package(package, target, "order-status")
except OSError as error:
    print(errno.errorcode[error.errno], list(target.iterdir()))
filling.unlink()
print(read_package(export_package(package, target, "order-status")).digest)
"""


def test_an_export_that_finds_no_room_leaves_nothing_behind(tmp_path, make_package, record_for, on_a_small_disk):
    registry, files = Registry(tmp_path / "home"), make_package()
    registry.publish(files, record=record_for(files))
    said = on_a_small_disk(EXPORT_TO_A_FULL_DISK, str(registry.get("order-status").path)).splitlines()
    assert said == ["ENOSPC []", digest(files)]


@pytest.mark.parametrize("obstacle", ["a stranger's skill", "an edited export", "another lineage", "a link"])
def test_an_export_never_overwrites_what_is_not_ours(tmp_path, make_package, record_for, obstacle):
    registry, files = Registry(tmp_path / "home"), make_package()
    registry.publish(files, record=record_for(files))
    target = tmp_path / "skills"
    path = target / "order-status"
    if obstacle == "a stranger's skill":
        path.mkdir(parents=True)
        (path / "SKILL.md").write_text("mine")
    elif obstacle == "an edited export":
        registry.export("order-status", target, approved_digest=digest(files))
        edit(path)
    elif obstacle == "another lineage":
        other = make_package(lineage="prd-2")
        elsewhere = Registry(tmp_path / "other")
        elsewhere.publish(other, record=record_for(other, lineage="prd-2"))
        elsewhere.export("order-status", target, approved_digest=digest(other))
    else:
        target.mkdir()
        path.symlink_to(tmp_path)
    before = tree(target)
    with pytest.raises(ExportRefused):
        registry.export("order-status", target, approved_digest=digest(files))
    assert tree(target) == before
