"""Finds the files under the paths that the caller named."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from instar.engine.importers.errors import SourceError
from instar.engine.importers.records import Skipped


@dataclass(frozen=True, slots=True)
class Found:
    """A regular file, and its name relative to what the caller named."""

    path: Path
    label: str


def check_sources(paths: Sequence[Path]) -> None:
    """Check that every named path can be used, before any work.

    Raises:
        SourceError: a path does not exist, cannot be read, or is neither a file nor a folder.
    """
    for path in paths:
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            raise SourceError(path, "does not exist", "Name an existing file or folder.") from None
        except (OSError, ValueError) as error:
            raise SourceError(path, _why(error), "Check the path and its permissions.") from None
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise SourceError(path, "is neither a file nor a folder", "Save the stream to a file first.")
        wanted = os.R_OK | (os.X_OK if stat.S_ISDIR(mode) else 0)
        if not os.access(path, wanted):
            raise SourceError(path, "cannot be read", "Check its permissions, or run as a user who may read it.")


def walk(path: Path) -> Iterator[Found | Skipped]:
    """Every regular file at or under a path, sorted by name, once.

    Hidden files and folders are left out. Symbolic links inside a folder are followed only to places inside it, so
    that a loop ends and a link cannot lead out; anything else that is not a file is skipped by name.
    """
    if path.is_file():
        yield Found(path, path.name)
        return
    root = Path(os.path.realpath(path))
    yield from _walk_folder(path, root=root, base=path, seen=set())


def _walk_folder(folder: Path, *, root: Path, base: Path, seen: set[tuple[int, int]]) -> Iterator[Found | Skipped]:
    pending = [folder]
    while pending:
        current = pending.pop()
        try:
            with os.scandir(current) as entries:
                names = sorted(entry.name for entry in entries if not entry.name.startswith("."))
        except OSError as error:
            yield Skipped(current, "folder", f"cannot be read: {_why(error)}")
            continue
        folders: list[Path] = []
        for name in names:
            entry = current / name
            try:
                if entry.is_symlink() and not Path(os.path.realpath(entry)).is_relative_to(root):
                    yield Skipped(entry, "link", "a symbolic link that leads out of the named folder")
                    continue
                found = entry.stat()
            except OSError as error:
                yield Skipped(entry, "link" if entry.is_symlink() else "file", f"cannot be read: {_why(error)}")
                continue
            identity = (found.st_dev, found.st_ino)
            if identity in seen:
                continue
            seen.add(identity)
            if stat.S_ISDIR(found.st_mode):
                folders.append(entry)
            elif stat.S_ISREG(found.st_mode):
                yield Found(entry, entry.relative_to(base).as_posix())
            else:
                yield Skipped(entry, "file", "not a regular file")
        pending.extend(reversed(folders))


def _why(error: OSError | ValueError) -> str:
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
