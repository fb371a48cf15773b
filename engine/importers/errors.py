"""Errors of the importers.

ImporterError
├── SourceError        a path that was named does not exist or cannot be read: nothing was imported
└── MalformedRecord    one record of a file is not what its format says; readers turn it into a `Skipped`
"""

from __future__ import annotations

from pathlib import Path


class ImporterError(Exception):
    """Base of everything that the importers raise on purpose."""


class SourceError(ImporterError):
    """A path that the caller named cannot be used. Raised before anything is read."""

    def __init__(self, path: Path, reason: str, remedy: str) -> None:
        self.path, self.reason, self.remedy = path, reason, remedy
        super().__init__(path, reason, remedy)

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}. {self.remedy}"


class MalformedRecord(ImporterError):
    """A record breaks the rules of its format, or one of the limits."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return self.reason
