"""The record beside each published version: who published which bytes, and the hash of every file."""

from __future__ import annotations

import hashlib
import os
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from instar.skills.errors import RecordRefused
from instar.skills.manifest import NAME_PATTERN, NAME_REGEX, VERSION_PATTERN, VERSION_REGEX
from instar.skills.package import Package, sync_folder


class PublicationRecord(BaseModel):
    """Who published which bytes, on the strength of which approval page."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=NAME_PATTERN, max_length=64)
    version: str = Field(pattern=VERSION_PATTERN)
    digest: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    lineage: str = Field(min_length=1)
    approval: str = Field(min_length=1)
    reviewer: str = Field(min_length=1)
    at: datetime


class StoredRecord(BaseModel):
    """A record as it lies on disk: with the hash of every file, to say later which one changed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    record: PublicationRecord
    files: dict[str, str]


class Records:
    """One JSON file for each version, in a folder for each name."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def names(self) -> tuple[str, ...]:
        """Every name that has a record, sorted."""
        if not self.root.is_dir():
            return ()
        return tuple(sorted(path.name for path in self.root.iterdir() if NAME_REGEX.fullmatch(path.name)))

    def versions(self, name: str) -> tuple[str, ...]:
        """The recorded versions of a name, oldest first; none for what is not a name."""
        folder = self.root / name
        if not NAME_REGEX.fullmatch(name) or not folder.is_dir():
            return ()
        found = (path.name.removesuffix(".json") for path in folder.glob("*.json"))
        return tuple(sorted((version for version in found if VERSION_REGEX.fullmatch(version)), key=version_order))

    def read(self, name: str, version: str) -> StoredRecord:
        """One record.

        Raises:
            RecordRefused: it cannot be read, or is about another skill.
        """
        try:
            stored = StoredRecord.model_validate_json(self._path(name, version).read_bytes())
        except (OSError, ValidationError) as error:
            raise RecordRefused(name, version, f"cannot be read: {error}") from error
        if (stored.record.name, stored.record.version) != (name, version):
            raise RecordRefused(name, version, "is about another skill")
        return stored

    def write(self, record: PublicationRecord, package: Package) -> None:
        """Write or replace a record in one step, flushed to disk."""
        stored = StoredRecord(record=record, files=file_hashes(package))
        path = self._path(record.name, record.version)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        with fresh.open("w", encoding="utf-8") as stream:
            stream.write(stored.model_dump_json(indent=2) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        fresh.rename(path)
        for folder in (path.parent, self.root, self.root.parent):
            sync_folder(folder)

    def _path(self, name: str, version: str) -> Path:
        return self.root / name / f"{version}.json"


def file_hashes(package: Package) -> dict[str, str]:
    """The SHA-256 of every file, the manifest included."""
    return {path: hashlib.sha256(content).hexdigest() for path, content in package.items()}


def version_order(version: str) -> tuple[int, ...]:
    """The key by which versions are ordered."""
    return tuple(int(part) for part in version.split("."))
