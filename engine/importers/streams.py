"""Opens a file as one or more plain byte streams: itself, its decompressed content, or the members of an archive.

Nothing is written to disk and nothing is held but the piece that is being read.
"""

from __future__ import annotations

import gzip
import io
import sqlite3
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Protocol, cast

from instar.engine.importers.databases import MAGIC, Transcripts, belongs_to_database
from instar.engine.importers.errors import MalformedRecord
from instar.engine.importers.records import MIB, ImportLimits, Skipped
from instar.engine.importers.walk import Found

_GZIP = b"\x1f\x8b"
_ZIP = b"PK\x03\x04"
_TAR_MAGIC_AT, _TAR_MAGIC = 257, b"ustar"
_TAR_HEADER = 512
_ARCHIVE_HEADERS_LIMIT = MIB
_OTHER_MAGIC = {
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ\x00": "compressed with xz",
    b"\x28\xb5\x2f\xfd": "compressed with zstd",
    MAGIC: "an SQLite database",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}


class PeekableStream(Protocol):
    """Bytes, read in order, with a look at what comes next."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; b"" at the end."""
        ...

    def peek(self, size: int, /) -> bytes:
        """Some of the next bytes, which are not consumed."""
        ...


@dataclass(frozen=True, slots=True)
class Member:
    """One stream to read. `name` is its path within the named folder and, after a colon, within the archive."""

    file: Path
    name: str
    folder: str
    """Where companions are looked for: the folder of the member, unique across files and archives."""
    inside: str
    """The path within the archive, "" outside of one."""
    stream: PeekableStream

    def position(self, place: str) -> str:
        """Where in the file a value is: for example "line 3", or "traces/a.json line 3" in an archive."""
        return f"{self.inside} {place}".strip() if self.inside else place

    @property
    def stem(self) -> str:
        """The file name up to its first dot."""
        return PurePosixPath(self.inside or self.name).name.split(".")[0]

    @property
    def folder_name(self) -> str:
        """The name of the folder that it lies in."""
        return PurePosixPath(self.folder.replace(":", "/")).name

    def lies_in(self, folder: str) -> bool:
        """Whether the folder that it lies in has this name."""
        return self.folder_name == folder


class _Metered(io.RawIOBase):
    """Counts what is read, and refuses to go beyond a bound."""

    def __init__(self, stream: IO[bytes], limit: int, *, left: int | None = None) -> None:
        super().__init__()
        self._stream, self._limit = stream, limit
        self.left = limit if left is None else left
        """How much more may be read."""
        self.headers_left: int | None = None
        """While a header of an archive is read: how much more it may take."""

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read into a buffer.

        Raises:
            MalformedRecord: more was asked for than the bound allows.
        """
        data = self._stream.read(len(buffer))
        while data and len(data) < len(buffer) and (more := self._stream.read(len(buffer) - len(data))):
            data += more
        self.left -= len(data)
        if self.left < 0:
            raise MalformedRecord(f"holds more than {self._limit} bytes once decompressed")
        if self.headers_left is not None:
            self.headers_left -= len(data)
            if self.headers_left < 0:
                raise MalformedRecord("an archive header of unreasonable size")
        buffer[: len(data)] = data
        return len(data)


READ_ERRORS = (
    OSError,
    EOFError,
    zlib.error,
    tarfile.TarError,
    zipfile.BadZipFile,
    sqlite3.Error,
    MalformedRecord,
)
"""What reading a damaged or hostile file raises (gzip's own errors are OSErrors)."""


def members(found: Found, limits: ImportLimits) -> Iterator[Member | Skipped]:
    """Open a file and yield what is in it, one after the other; a member must be read before the next is asked for.

    Damage is reported as `Skipped`, and ends the file.
    """
    if belongs_to_database(found.path):
        return
    try:
        with found.path.open("rb") as raw, _decompressed(raw) as plain:
            start = raw.read(len(MAGIC))
            if start == MAGIC:
                yield from _database(found, limits)
                return
            raw.seek(0)
            if start.startswith(_ZIP):
                yield from _zip(found, raw, limits)
                return
            metered = _Metered(plain, limits.expanded_bytes)
            stream = io.BufferedReader(metered, 64 * 1024)
            head = stream.peek(_TAR_HEADER)
            if head[_TAR_MAGIC_AT : _TAR_MAGIC_AT + len(_TAR_MAGIC)] == _TAR_MAGIC:
                yield from _archive(found, metered, cast(IO[bytes], stream))
            else:
                yield Member(found.path, found.label, str(found.path.absolute().parent), "", stream)
    except READ_ERRORS as error:
        yield Skipped(found.path, "file", describe(error))


def describe(error: BaseException) -> str:
    """A reason for people, from an error of `READ_ERRORS`."""
    if isinstance(error, MalformedRecord):
        return error.reason
    if isinstance(error, sqlite3.Error):
        return f"an SQLite database that cannot be read: {error}"
    if isinstance(error, EOFError | zlib.error | gzip.BadGzipFile | tarfile.TarError | zipfile.BadZipFile):
        return f"damaged compressed data: {error}"
    return f"cannot be read: {getattr(error, 'strerror', None) or error}".lower()


def foreign_content(head: bytes) -> str | None:
    """What a file is when it is certainly not JSON text: another archive, a database, another encoding."""
    return next((what for magic, what in _OTHER_MAGIC.items() if head.startswith(magic)), None)


@contextmanager
def _decompressed(raw: IO[bytes]) -> Iterator[IO[bytes]]:
    start = raw.read(2)
    raw.seek(0)
    if start != _GZIP:
        yield raw
        return
    with gzip.GzipFile(fileobj=raw, mode="rb") as plain:
        yield cast(IO[bytes], plain)


def _archive(found: Found, metered: _Metered, stream: IO[bytes]) -> Iterator[Member | Skipped]:
    # tarfile reads an extended header whole, whatever size it claims: bound what a header may take.
    metered.headers_left = _ARCHIVE_HEADERS_LIMIT
    with tarfile.open(fileobj=stream, mode="r|", format=tarfile.PAX_FORMAT) as archive:
        while True:
            metered.headers_left = _ARCHIVE_HEADERS_LIMIT
            entry = archive.next()
            metered.headers_left = None
            archive.members = []  # type: ignore[attr-defined]  # or it remembers every header that it has seen
            if entry is None:
                return
            content = archive.extractfile(entry) if entry.isreg() else None
            if content is not None and not _is_hidden(entry.name):
                yield _inside(found, _printable(entry.name), cast(PeekableStream, content))
            elif content is None and not entry.isdir():
                yield Skipped(found.path, _printable(entry.name), "not a regular file")
            while content is not None and content.read(MIB):
                pass


def _database(found: Found, limits: ImportLimits) -> Iterator[Member | Skipped]:
    with closing(Transcripts(found.path, limits.value_bytes)) as transcripts:
        if not transcripts.known:
            yield Skipped(found.path, "file", "an SQLite database without transcripts of a known format")
            return
        for session in transcripts.sessions():
            metered = _Metered(cast(IO[bytes], transcripts.lines(session)), limits.expanded_bytes)
            yield _inside(found, _printable(session), cast(PeekableStream, io.BufferedReader(metered, 64 * 1024)))


def _zip(found: Found, raw: IO[bytes], limits: ImportLimits) -> Iterator[Member | Skipped]:
    left = limits.expanded_bytes
    with zipfile.ZipFile(raw) as archive:
        for entry in archive.infolist():
            if entry.is_dir() or _is_hidden(entry.filename):
                continue
            inside = _printable(entry.filename)
            try:
                content = archive.open(entry)
            except (NotImplementedError, RuntimeError) as error:  # encrypted, or compressed in a way unknown here
                yield Skipped(found.path, inside, f"cannot be read: {error}")
                continue
            with content:
                metered = _Metered(content, limits.expanded_bytes, left=left)
                yield _inside(found, inside, cast(PeekableStream, io.BufferedReader(metered, 64 * 1024)))
                left = metered.left


def _inside(found: Found, inside: str, stream: PeekableStream) -> Member:
    folder = f"{found.path}:{PurePosixPath(inside).parent}"
    return Member(found.path, f"{found.label}:{inside}", folder, inside, stream)


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") and part not in (".", "..") for part in PurePosixPath(name).parts)


def _printable(name: str) -> str:
    """A member's name without what could move a terminal's cursor."""
    return "".join(char if char.isprintable() else "\ufffd" for char in name)
