"""The published skills of one home: `<name>/<version>/` holds exactly the approved bytes.

Beside the skills live `.records/` (what was published, by whom, and the hash of every file), `.staging/` (work of a
process that holds the lock), `.quarantine/` (folders whose files had changed) and `.lock`. A version is visible when
its folder *and* its record exist; the record is written first, so renaming the folder is the one step that publishes.
Of several versions the newest is in force, unless a standing (`instar.skills.standing`) says otherwise.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from instar.skills.errors import (
    NameTaken,
    NotPublished,
    PackageRefused,
    RecordRefused,
    SkillChanged,
    SkillQuarantined,
    SkillRetired,
    VersionRefused,
)
from instar.skills.export import export_package
from instar.skills.manifest import Manifest
from instar.skills.package import Files, Package, check, read_package, sync_folder, write_package
from instar.skills.records import PublicationRecord, Records, file_hashes, version_order
from instar.skills.standing import Standing, read_standing, write_standing


class Status(StrEnum):
    """What a check of one published version found."""

    INTACT = "intact"
    CHANGED = "changed"
    QUARANTINED = "quarantined"
    MISSING = "missing"
    """Recorded, but the folder is not there: removed by hand, or publishing stopped half-way."""


@dataclass(frozen=True, slots=True)
class Verification:
    """One version, whether its bytes are still those that were published, and which files differ."""

    name: str
    version: str
    status: Status
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """One visible version."""

    record: PublicationRecord
    path: Path
    quarantine: str = ""
    """Where the version was moved to when its files had changed; empty while it is in place."""


class Registry:
    """Publishes, lists, loads and verifies skills under one folder; safe for several processes at once.

    `on_step` is called with a name before each step that reaches the disk; tests use it to stop there.
    """

    def __init__(self, root: Path, *, on_step: Callable[[str], None] | None = None) -> None:
        self.root = root
        self._records = Records(root / ".records")
        self._step = on_step or (lambda name: None)

    def publish(self, files: Files, *, record: PublicationRecord) -> Path:
        """Make one approved package visible; the same digest again changes nothing.

        A crash at any point leaves either the old state or the new one.

        Raises:
            PackageRefused, ManifestRefused: the files are not a truthful package.
            RecordRefused: the record is about other bytes, another name, version or lineage.
            NameTaken: the name belongs to another lineage.
            VersionRefused: the version holds other bytes, or is not higher than the last one.
            SkillChanged: the same digest is published, but its files were changed since.
        """
        package = Package(files)
        _agree(record, check(package), package)
        with self._locked():
            target = self.root / record.name / record.version
            if self._admit(record, target):
                return target
            staging = self.root / ".staging"
            shutil.rmtree(staging, ignore_errors=True)
            self._step("stage")
            staged = staging / record.version
            write_package(staged, package)
            self._step("record")
            self._records.write(record, package)
            self._step("reveal")
            target.parent.mkdir(exist_ok=True)
            staged.rename(target)
            self._step("flush")
            sync_folder(target.parent)
            sync_folder(self.root)
            self._step("done")
            return target

    def stand(self, standing: Standing) -> None:
        """Put an older version in force, or none; the same again changes nothing, and publishing a newer one ends it.

        Raises:
            NotPublished: there is no such skill, or the version that shall be in force is not there with this digest.
            SkillQuarantined: that version was moved aside.
            VersionRefused: a newer version was published since this was decided.
            RecordRefused: a record cannot be read.
        """
        with self._locked():
            entries = self.versions(standing.name)
            if not entries:
                raise NotPublished(standing.name)
            newest = entries[-1].record.version
            if version_order(newest) > version_order(standing.after):
                raise VersionRefused(standing.name, standing.after, f"{newest} was published meanwhile")
            if standing.version:
                chosen = [entry for entry in entries if entry.record.version == standing.version]
                if not chosen or chosen[0].record.digest != standing.digest:
                    raise NotPublished(standing.name, f"version {standing.version}")
                self._in_place(chosen[0])
            self._step("stand")
            write_standing(self._records.root, standing)
            self._step("stood")

    def standing(self, name: str) -> Standing | None:
        """The decision by which another version than the newest is in force, or none; None without one.

        Raises:
            RecordRefused: it cannot be read.
        """
        standing = read_standing(self._records.root, name)
        entries = () if standing is None else self.versions(name)
        if standing is None or not entries:
            return None
        overtaken = version_order(entries[-1].record.version) > version_order(standing.after)
        return None if overtaken else standing

    def list(self) -> tuple[Entry, ...]:
        """The version in force of every skill, by name; retired skills are left out."""
        found = (self._in_force(name) for name in self._records.names())
        return tuple(entry for entry in found if entry is not None)

    def retired(self) -> tuple[Entry, ...]:
        """The newest version of every skill that was retired, by name."""
        names = (name for name in self._records.names() if self.versions(name) and self._in_force(name) is None)
        return tuple(self.versions(name)[-1] for name in names)

    def versions(self, name: str) -> tuple[Entry, ...]:
        """Every version of one skill, oldest first; quarantined ones say so.

        Raises:
            RecordRefused: a record cannot be read.
        """
        found = []
        for version in self._records.versions(name):
            path = self.root / name / version
            quarantine = "" if os.path.lexists(path) else self._quarantine_of(name, version)
            if quarantine or os.path.lexists(path):
                found.append(Entry(self._records.read(name, version).record, path, quarantine))
        return tuple(found)

    def get(self, name: str, version: str | None = None) -> Entry:
        """One version, or the one in force: the newest, unless a person decided otherwise.

        Raises:
            NotPublished: there is none.
            SkillRetired: none is in force, and no version was named.
            SkillQuarantined: it was moved aside; an older version never silently takes its place.
        """
        entries = [entry for entry in self.versions(name) if version in (None, entry.record.version)]
        if not entries:
            raise NotPublished(name, f"version {version}" if version else "")
        if version is not None:
            return self._in_place(entries[0])
        entry = self._in_force(name)
        if entry is None:
            standing = self.standing(name)
            raise SkillRetired(name, standing.by if standing else "")
        return self._in_place(entry)

    def load(self, name: str, *, approved_digest: str) -> Package:
        """The bytes of the version with this digest, checked one by one; run these, not the files on disk.

        Raises:
            NotPublished: no version has this digest.
            SkillQuarantined: it was moved aside earlier.
            SkillChanged: a file differs; the folder was moved to quarantine, unchanged.
        """
        for entry in reversed(self.versions(name)):
            if entry.record.digest == approved_digest:
                package, _ = self._read(self._in_place(entry))
                return package or self._read_or_set_aside(entry)
        raise NotPublished(name, approved_digest)

    def verify(self) -> tuple[Verification, ...]:
        """Check every byte of every version, and that every record has its folder; nothing is moved."""
        found = []
        for name in self._records.names():
            entries = self.versions(name)
            visible = {entry.record.version for entry in entries}
            gone = (version for version in self._records.versions(name) if version not in visible)
            found += [Verification(name, version, Status.MISSING) for version in gone]
            for entry in entries:
                version = entry.record.version
                if entry.quarantine:
                    found.append(Verification(name, version, Status.QUARANTINED))
                    continue
                package, changed = self._read(entry)
                status = Status.CHANGED if package is None else Status.INTACT
                found.append(Verification(name, version, status, changed))
        return tuple(found)

    def export(self, name: str, target: Path, *, approved_digest: str) -> Path:
        """Copy a version to `target/<name>`, for hosts that read `.agents/skills/` or `.claude/skills/`.

        An earlier export is replaced only when it is of the same lineage and nobody edited it.

        Raises:
            ExportRefused: something else, or an edited export, is in the way.
            NotPublished, SkillQuarantined, SkillChanged: as for `load`.
        """
        package = self.load(name, approved_digest=approved_digest)
        with self._locked():
            return export_package(package, target, name)

    def _in_force(self, name: str) -> Entry | None:
        entries = self.versions(name)
        standing = self.standing(name) if entries else None
        if standing is None:
            return entries[-1] if entries else None
        found = [entry for entry in entries if entry.record.version == standing.version]
        if standing.version and not found:
            raise NotPublished(name, f"version {standing.version}, which is in force")
        return found[0] if found else None

    def _admit(self, record: PublicationRecord, target: Path) -> bool:
        """Whether these very bytes are published already; raises when they may not be."""
        entries = self.versions(record.name)
        for entry in entries:
            if entry.record.lineage != record.lineage:
                raise NameTaken(record.name, entry.record.lineage, record.lineage)
        same = next((entry for entry in entries if entry.record.version == record.version), None)
        if same is not None:
            if same.record.digest != record.digest:
                raise VersionRefused(record.name, record.version, "is published with other bytes")
            if same.quarantine:
                return False
            package, changed = self._read(same)
            if package is None:
                raise self._move(same, changed)
            return True
        if os.path.lexists(target):
            raise VersionRefused(record.name, record.version, f"{target} holds files that no record knows")
        if entries and version_order(record.version) <= version_order(entries[-1].record.version):
            raise VersionRefused(record.name, record.version, f"is not higher than {entries[-1].record.version}")
        return False

    def _read(self, entry: Entry) -> tuple[Package | None, tuple[str, ...]]:
        """The package, or None and the files that differ from the record."""
        try:
            package = read_package(entry.path)
        except PackageRefused as refused:
            return None, (refused.path,)
        if package.digest == entry.record.digest:
            return package, ()
        recorded = self._records.read(entry.record.name, entry.record.version).files
        actual = file_hashes(package)
        changed = {path for path, _ in recorded.items() ^ actual.items()}
        return None, tuple(sorted(changed)) or (".records",)

    def _in_place(self, entry: Entry) -> Entry:
        if entry.quarantine:
            raise SkillQuarantined(entry.record.name, entry.record.version, entry.quarantine)
        return entry

    def _read_or_set_aside(self, entry: Entry) -> Package:
        with self._locked():  # read again: another process may have restored it a moment ago
            package, changed = self._read(entry)
            if package is None:
                raise self._move(entry, changed)
            return package

    def _move(self, entry: Entry, changed: tuple[str, ...]) -> SkillChanged:
        quarantine = self.root / ".quarantine"
        quarantine.mkdir(exist_ok=True)
        stem = f"{entry.record.name}@{entry.record.version}"
        place = next(path for n in range(1, 10_000) if not os.path.lexists(path := quarantine / f"{stem}.{n}"))
        if os.path.lexists(entry.path):  # another process may have moved it a moment ago
            entry.path.rename(place)
            sync_folder(entry.path.parent)
        return SkillChanged(entry.record.name, entry.record.version, changed, str(place))

    def _quarantine_of(self, name: str, version: str) -> str:
        found = sorted((self.root / ".quarantine").glob(f"{name}@{version}.*"))
        return str(found[-1]) if found else ""

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.root.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.root / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _agree(record: PublicationRecord, manifest: Manifest, package: Package) -> None:
    pairs = {
        "digest": (record.digest, package.digest),
        "name": (record.name, manifest.name),
        "version": (record.version, manifest.version),
        "lineage": (record.lineage, manifest.lineage),
    }
    for what, (said, found) in pairs.items():
        if said != found:
            raise RecordRefused(record.name, record.version, f"says {what} {said!r}, the package {found!r}")
