"""Whether a disk is full. SQLite says "disk I/O error" where the file of its shared memory found no room."""

from __future__ import annotations

import errno
import os
import secrets
import sqlite3
from pathlib import Path

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
_MAY_BE_FULL = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN})
_PROBE = 64 * 1024
"""Bytes: twice what SQLite asks for at a time."""


def out_of_room(error: BaseException, folder: Path) -> bool:
    """Whether a failure of SQLite or of the system, met in this folder, means that its disk or quota is full.

    Where the code of SQLite does not say, writing a little beside the file tells it; nothing of that is left.
    """
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        return code == sqlite3.SQLITE_FULL or (code in _MAY_BE_FULL and is_full(folder))
    return isinstance(error, OSError) and error.errno in _NO_ROOM


def in_words(error: BaseException) -> str:
    """What failed for want of room, with a word about it where the error has none."""
    said = str(error)
    return said if "full" in said or "No space" in said else f"no space is left on the disk ({said})"


def is_full(folder: Path) -> bool:
    """Whether nothing more can be written in a folder because of its disk or quota."""
    place = folder / f".room-{secrets.token_hex(8)}"
    try:
        file = os.open(place, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            place.unlink()
            written = os.write(file, b"\0" * _PROBE)
            os.fsync(file)  # some file systems find out no sooner
        finally:
            os.close(file)
    except OSError as error:
        return error.errno in _NO_ROOM
    return written < _PROBE
