"""The spool: what agents did, on disk before anything else, in lines of JSON.

Standard library only and no import of ours: hooks run this file without the rest, because they have to be over in a
few milliseconds. A file is mode 0600. Whoever writes holds an exclusive lock on it; whoever takes it away renames it
first, so that a writer never waits for the work of a reader.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence

SUFFIX, TAKEN = ".jsonl", ".taken"
FAILURE = "failure.json"
_O_NEW = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_NAME_LENGTH = 80


class Waiting:
    """What is in the spool and not in the store. `since` is the time of the oldest file, 0.0 when there is none.

    `failure` says why it could not be stored, where that was tried; "" otherwise.
    """

    __slots__ = ("bytes", "failure", "files", "since")

    def __init__(self, files: int, size: int, since: float, failure: str) -> None:
        self.files, self.bytes, self.since, self.failure = files, size, since, failure


def folder_of(home: str) -> str:
    """The spool of a home."""
    return f"{home}/spool"


def file_name(agent: str, session: str) -> str:
    """A name for the file of a session: readable, and never a path, whatever the session is called."""
    text = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in f"{agent}-{session}")
    return text[:_NAME_LENGTH].strip("-") or "session"


def stamp(agent: str, session: str, project: str, kind: str) -> dict[str, str | int | float]:
    """The beginning of an event: whose it is, its time, and an id that no other event of it has."""
    unique = os.urandom(6).hex()
    return {
        "v": 1,
        "id": unique,
        "at": time.time(),
        "agent": agent,
        "session": session,
        "project": project,
        "event": kind,
    }


class SpoolFile:
    """One file of the spool, locked as long as it is open.

    Raises:
        OSError: the file cannot be made, locked or written.
    """

    def __init__(self, folder: str, name: str) -> None:
        self.path = f"{folder}/{name}{SUFFIX}"
        _make(folder)
        self._fd = _open_locked(self.path)

    def append(self, events: Sequence[Mapping[str, object]]) -> None:
        """Write events behind what is there, and return when they would survive a loss of power."""
        self.append_text("".join(json.dumps(one, ensure_ascii=False, separators=(",", ":")) + "\n" for one in events))

    def append_text(self, lines: str, *, sync: bool = True) -> None:
        """As `append`, for lines that are made already.

        Without `sync` they survive the end of this process, and a loss of power once later ones are synced.
        """
        size = os.fstat(self._fd).st_size
        # A writer that died in the middle of a line leaves half of one; it must not take ours with it.
        torn = size > 0 and os.pread(self._fd, 1, size - 1) != b"\n"
        data = (b"\n" if torn else b"") + lines.encode("utf-8", "replace")
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError:
            os.ftruncate(self._fd, size)  # half an event is none, and takes room from the next
            raise
        if sync:
            os.fdatasync(self._fd)

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return os.fstat(self._fd).st_size

    def clear(self) -> None:
        """Forget what was written: it is in the store now."""
        os.ftruncate(self._fd, 0)

    def remove(self) -> None:
        """Delete the file and give back the lock."""
        if self._fd >= 0:
            os.unlink(self.path)  # noqa: PTH108  (no pathlib here: its import takes longer than the work)
            self.close()

    def close(self) -> None:
        """Give back the lock; the file stays. Closing twice is fine."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def append(folder: str, name: str, events: Sequence[Mapping[str, object]]) -> None:
    """Write events to a file that other processes write to as well.

    Raises:
        OSError: they are not in the file.
    """
    file = SpoolFile(folder, name)
    try:
        file.append(events)
    finally:
        file.close()


def take(folder: str, *, only: str = "") -> Iterator[tuple[str, int]]:
    """Every file that nobody writes to, by its new path and a descriptor that is open and locked while it is used.

    `only` is the beginning of the names that are meant.

    The caller deletes a file when its content is stored; one that is left is taken again the next time.
    """
    try:
        names = sorted(os.listdir(folder), key=lambda name: (not name.endswith(TAKEN), name))  # noqa: PTH208
    except FileNotFoundError:
        return
    for name in names:
        path = f"{folder}/{name}"
        if not name.endswith((SUFFIX, TAKEN)) or not name.startswith(only):
            continue
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue
        try:
            if not _lock(fd, wait=False) or not _still(fd, path):
                continue
            if name.endswith(SUFFIX):
                taken = f"{path.removesuffix(SUFFIX)}-{time.time_ns():x}{TAKEN}"
                os.rename(path, taken)  # noqa: PTH104
                path = taken
            yield path, fd
        finally:
            os.close(fd)


def waiting(folder: str) -> Waiting:
    """What is in the spool; empty files, and those of agents that run, do not count."""
    files, size, since = 0, 0, 0.0
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return Waiting(0, 0, 0.0, "")
    for entry in entries:
        if entry.name.endswith((SUFFIX, TAKEN)):
            found = entry.stat(follow_symlinks=False)
            if found.st_size and not _in_use(entry.path):
                files, size = files + 1, size + found.st_size
                since = min(since or found.st_mtime, found.st_mtime)
    return Waiting(files, size, since, _failure(folder))


def note_failure(folder: str, reason: str) -> None:
    """Leave word, for whoever looks, that events could not be stored.

    Raises:
        OSError: not even that can be written.
    """
    _make(folder)
    fresh = f"{folder}/{FAILURE}.{os.getpid()}"
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(fd, json.dumps({"at": time.time(), "reason": reason[:1000]}).encode())
    finally:
        os.close(fd)
    os.replace(fresh, f"{folder}/{FAILURE}")  # noqa: PTH105


def clear_failure(folder: str) -> None:
    """Take that word back: everything is stored again."""
    try:
        os.unlink(f"{folder}/{FAILURE}")  # noqa: PTH108
    except FileNotFoundError:
        return


def _in_use(path: str) -> bool:
    """Whether a running agent holds the file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    try:
        return not _lock(fd, wait=False)
    finally:
        os.close(fd)


def _failure(folder: str) -> str:
    try:
        with open(f"{folder}/{FAILURE}", encoding="utf-8") as file:  # noqa: PTH123
            return str(json.load(file).get("reason", ""))
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, AttributeError):
        return "unknown"


def _make(folder: str) -> None:
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, "is not a folder", folder) from error


def _open_locked(path: str) -> int:
    while True:
        fd = os.open(path, _O_NEW, 0o600)
        try:
            _lock(fd, wait=True)
            if _still(fd, path):
                return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)  # taken away while we waited for the lock


def _lock(fd: int, *, wait: bool) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _still(fd: int, path: str) -> bool:
    """Whether the path still names the open file."""
    mine = os.fstat(fd)
    try:
        there = os.stat(path, follow_symlinks=False)  # noqa: PTH116
    except FileNotFoundError:
        return False
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)
