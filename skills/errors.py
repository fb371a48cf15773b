"""What can go wrong with packages and the registry.

SkillsError
├── PackageRefused        a file or path that no package may hold
├── ManifestRefused       scripts/manifest.json is missing, unreadable or untruthful
├── CaseRefused           a recorded case cannot be read
└── RegistryError
    ├── NotPublished      no such skill, version or digest
    │   └── SkillRetired  a person retired it: no version is in force
    ├── NameTaken         the name belongs to another lineage
    ├── VersionRefused    not higher than the last version, or taken by other bytes
    ├── SkillChanged      files differ from what was approved; they were moved to quarantine
    ├── SkillQuarantined  the newest version was moved to quarantine earlier
    ├── RecordRefused     a publication record does not match its files or cannot be read
    └── ExportRefused     the target holds something that is not ours or was edited
"""

from __future__ import annotations


class SkillsError(Exception):
    """Base of everything this package raises on purpose."""


class PackageRefused(SkillsError):
    """A path, file type or size that no package may hold."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(path, reason)

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.path else self.reason


class ManifestRefused(SkillsError):
    """The manifest is missing, unreadable, or says something else than the files do."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__(problems)

    def __str__(self) -> str:
        return "scripts/manifest.json: " + "; ".join(self.problems)


class CaseRefused(SkillsError):
    """A file under tests/cases/ is not a recorded case."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(path, reason)

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class RegistryError(SkillsError):
    """Base of the registry's refusals."""


class NotPublished(RegistryError):
    """Nothing is published under this name, version or digest."""

    def __init__(self, name: str, what: str = "") -> None:
        self.name, self.what = name, what
        super().__init__(name, what)

    def __str__(self) -> str:
        return f"skill {self.name!r} is not published" + (f" as {self.what}" if self.what else "")


class SkillRetired(NotPublished):
    """A person retired the skill: no version is in force."""

    def __init__(self, name: str, by: str) -> None:
        self.by = by
        super().__init__(name, by)
        self.args = (name, by)

    def __str__(self) -> str:
        return (
            f"skill {self.name!r} was retired" + (f" by {self.by}" if self.by else "") + "; "
            f"`instar skills rollback {self.name}` brings it back"
        )


class NameTaken(RegistryError):
    """The name belongs to another lineage; a name is never taken over."""

    def __init__(self, name: str, owner: str, lineage: str) -> None:
        self.name, self.owner, self.lineage = name, owner, lineage
        super().__init__(name, owner, lineage)

    def __str__(self) -> str:
        return f"skill name {self.name!r} belongs to lineage {self.owner!r}, not to {self.lineage!r}"


class VersionRefused(RegistryError):
    """The version is taken by other bytes, or is not higher than the last one published."""

    def __init__(self, name: str, version: str, reason: str) -> None:
        self.name, self.version, self.reason = name, version, reason
        super().__init__(name, version, reason)

    def __str__(self) -> str:
        return f"skill {self.name!r} version {self.version}: {self.reason}"


class SkillChanged(RegistryError):
    """Published files are no longer those that were approved. They were moved aside and not run."""

    def __init__(self, name: str, version: str, files: tuple[str, ...], quarantine: str) -> None:
        self.name, self.version, self.files, self.quarantine = name, version, files, quarantine
        super().__init__(name, version, files, quarantine)

    def __str__(self) -> str:
        listed = ", ".join(self.files)
        return (
            f"skill {self.name!r} version {self.version} was changed after its approval ({listed}); "
            f"moved to {self.quarantine}"
        )


class SkillQuarantined(RegistryError):
    """The newest version was moved aside because its files had changed; publish it again to restore it."""

    def __init__(self, name: str, version: str, quarantine: str) -> None:
        self.name, self.version, self.quarantine = name, version, quarantine
        super().__init__(name, version, quarantine)

    def __str__(self) -> str:
        return (
            f"skill {self.name!r} version {self.version} is in quarantine at {self.quarantine}; "
            "publish the approved bytes again to restore it"
        )


class RecordRefused(RegistryError):
    """A publication record cannot be read, or is about other bytes than those it came with."""

    def __init__(self, name: str, version: str, reason: str) -> None:
        self.name, self.version, self.reason = name, version, reason
        super().__init__(name, version, reason)

    def __str__(self) -> str:
        return f"publication record of {self.name!r} version {self.version}: {self.reason}"


class ExportRefused(RegistryError):
    """The export target holds something that is not ours, or ours with edits."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(path, reason)

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"
