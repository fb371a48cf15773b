"""The built-in tools `files.read` and `files.write`, on the trusted side: named folders only, and no way around.

A path is walked one component at a time from the folder's descriptor, and no component may be a symbolic link: what
is opened is inside, whatever others do to the folder meanwhile.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from pydantic import JsonValue

from instar.sandbox.encodings import BASE64, UTF_8, decoded
from instar.sandbox.errors import ToolError
from instar.sandbox.protocol import MIB

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Files:
    """`files.read(path)` answers the text; `files.write(path, text)` replaces the file at once, or not at all.

    With `encoding="base64"` any file is read, and its bytes come so spelled. Paths are absolute and must lie in one
    of the folders. `file_bytes` bounds both.
    """

    readable: Sequence[Path] = ()
    writable: Sequence[Path] = ()
    file_bytes: int = MIB

    def read(self, path: str, encoding: str = UTF_8) -> str:
        """Read one file.

        Raises:
            ToolError: it lies elsewhere, is no plain file, is too large, or is no text.
        """
        with self._inside(path, self.readable) as (folder, name):
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise ToolError(f"{path!r} is not a file")
                content = file.read(self.file_bytes + 1)
        if len(content) > self.file_bytes:
            raise ToolError(f"{path!r} is larger than {self.file_bytes} bytes")
        try:
            return decoded(content, encoding)
        except UnicodeDecodeError as error:
            raise ToolError(f"{path!r} is not text; encoding = {BASE64!r} reads it") from error

    def write(self, path: str, text: str) -> dict[str, JsonValue]:
        """Write one text file.

        Raises:
            ToolError: it would lie elsewhere, its folder is missing, or the text is too large.
        """
        content = text.encode()
        if len(content) > self.file_bytes:
            raise ToolError(f"the text is larger than {self.file_bytes} bytes")
        with self._inside(path, self.writable) as (folder, name):
            fresh = f".instar-{secrets.token_hex(8)}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(fresh, flags, 0o644, dir_fd=folder)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(descriptor)
                os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                os.unlink(fresh, dir_fd=folder)
                raise
        return {"bytes": len(content)}

    @contextmanager
    def _inside(self, path: str, roots: Sequence[Path]) -> Iterator[tuple[int, str]]:
        """The open folder and the name in it."""
        root, parts = _below(path, roots)
        try:
            descriptor = os.open(root, FOLDER & ~os.O_NOFOLLOW)
            try:
                for part in parts[:-1]:
                    below = os.open(part, FOLDER, dir_fd=descriptor)
                    os.close(descriptor)
                    descriptor = below
                yield descriptor, parts[-1]
            finally:
                os.close(descriptor)
        except OSError as error:
            raise ToolError(f"{path!r}: {error.strerror}") from error


def _below(path: str, roots: Sequence[Path]) -> tuple[Path, tuple[str, ...]]:
    """The folder that holds the path, and the components below it."""
    wanted = PurePosixPath(path)
    if "\0" in path or not wanted.is_absolute() or ".." in wanted.parts:
        raise ToolError(f"{path!r} is not an absolute path without `..`")
    for root in roots:
        if wanted.is_relative_to(root) and wanted != PurePosixPath(root):
            return root, wanted.relative_to(root).parts
    raise ToolError(f"{path!r} does not lie in an allowed folder")
