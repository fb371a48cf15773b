"""A change of a file that belongs to somebody else: shown first, then made whole or not at all, with a copy kept."""

from __future__ import annotations

import contextlib
import difflib
import os
import stat
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from instar.core.errors import SourceMissing


@dataclass(frozen=True, slots=True)
class Edit:
    """What a file holds now (None: it is not there) and what it is to hold (None: it is to go)."""

    path: Path
    before: str | None
    after: str | None

    @property
    def changes(self) -> bool:
        """Whether there is anything to do."""
        return self.before != self.after

    @property
    def diff(self) -> str:
        """The change, line by line."""
        lines = difflib.unified_diff(
            (self.before or "").splitlines(keepends=True),
            (self.after or "").splitlines(keepends=True),
            fromfile=str(self.path) if self.before is not None else "/dev/null",
            tofile=str(self.path) if self.after is not None else "/dev/null",
        )
        return "".join(line if line.endswith("\n") else line + "\n" for line in lines)


def read(path: Path) -> str | None:
    """The text of a file; None where there is none.

    Raises:
        SourceMissing: it is there and cannot be read.
    """
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SourceMissing(f"{path}: {error.strerror}", "Get access to it; nothing was changed") from error
    except UnicodeDecodeError as error:
        raise SourceMissing(f"{path}: is not UTF-8", "Correct the file; nothing was changed") from error


def apply(edit: Edit) -> Path | None:
    """Make a change; returns where the former content is kept, None where there was none.

    The file keeps its mode, and a link stays a link: what it points to is changed.

    Raises:
        SourceMissing: it cannot be written, or it changed since it was read. It is as it was.
    """
    if not edit.changes:
        return None
    real = edit.path.resolve()
    if read(real) != edit.before:
        raise SourceMissing(f"{edit.path}: changed while it was read", "Try again; nothing was changed")
    try:
        backup = _back_up(real) if edit.before is not None else None
        if edit.after is None:
            real.unlink()
        else:
            _write(real, edit.after)
    except OSError as error:
        raise SourceMissing(
            f"{edit.path}: {error.strerror}", "Get permission to write it and its folder; it is as it was"
        ) from error
    return backup


def _back_up(path: Path) -> Path:
    backup = path.with_name(f"{path.name}.instar-{time.strftime('%Y%m%dT%H%M%S')}-{time.time_ns() % 10**9:09d}.bak")
    descriptor = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IMODE(path.stat().st_mode))
    with os.fdopen(descriptor, "wb") as file:
        file.write(path.read_bytes())
    return backup


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(13, "no permission to write")
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    fresh = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        fresh.chmod(mode)
        fresh.replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()
        raise
