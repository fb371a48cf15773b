"""Pinned wheels of a skill: found among files brought in from outside, checked, unpacked once, shown to jobs.

Nothing is fetched and nothing of a wheel is run. A wheel is taken for its bytes only: whatever its name says, it must
have one of the hashes that the approved manifest lists.
"""

from __future__ import annotations

import hashlib
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from instar.sandbox.errors import DependencyMissing, DependencyUnusable
from instar.sandbox.protocol import MIB
from instar.skills.manifest import Dependency

MAX_FILES: Final = 20_000
MAX_BYTES: Final = 512 * MIB
INSTALLED: Final = ("purelib", "platlib")
"""The folders of a wheel's `.data` that belong beside its packages."""


def unpack(dependencies: Sequence[Dependency], wheels: Path, unpacked: Path) -> tuple[Path, ...]:
    """Unpack every dependency from the folder `wheels` into the folder `unpacked`, and return where they lie.

    A wheel that is unpacked already is not unpacked again; two processes may do it at once.

    Raises:
        DependencyMissing: no file there has one of the hashes.
        DependencyUnusable: a wheel with the right hash cannot be unpacked safely.
    """
    return tuple(_unpack_one(dependency, wheels, unpacked) for dependency in dependencies)


def _unpack_one(dependency: Dependency, wheels: Path, unpacked: Path) -> Path:
    for digest in dependency.sha256:
        if (unpacked / digest).is_dir():
            return unpacked / digest
    for wheel in _candidates(dependency, wheels):
        content = wheel.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        if digest in dependency.sha256:
            return _extract(dependency, wheel, unpacked / digest)
    raise DependencyMissing(dependency.name, dependency.version, str(wheels))


def _candidates(dependency: Dependency, wheels: Path) -> Iterator[Path]:
    for path in sorted(wheels.glob("*.whl")):
        try:
            name, version, _, _ = parse_wheel_filename(path.name)
        except InvalidWheelFilename:
            continue
        if name == canonicalize_name(dependency.name) and str(version) == dependency.version:
            yield path


def _extract(dependency: Dependency, wheel: Path, target: Path) -> Path:
    """Unpack beside the target and rename: whoever looks sees all of it or nothing."""
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=target.parent))
    try:
        _fill(dependency, wheel, fresh)
        try:
            fresh.rename(target)
        except OSError:
            if not target.is_dir():  # otherwise another process was first
                raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return target


def _fill(dependency: Dependency, wheel: Path, folder: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            for entry, place in _entries(dependency, archive):
                path = folder / place
                path.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(entry) as source, path.open("xb") as file:
                    shutil.copyfileobj(source, file)
                path.chmod(0o644)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, FileExistsError) as error:
        raise DependencyUnusable(dependency.name, dependency.version, str(error)) from error
    for path in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        path.chmod(0o755)


def _entries(dependency: Dependency, archive: zipfile.ZipFile) -> Iterator[tuple[zipfile.ZipInfo, PurePosixPath]]:
    """Every file to unpack, and where.

    Raises:
        DependencyUnusable: too much, or a path that leaves the folder.
    """
    entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    if len(entries) > MAX_FILES or sum(entry.file_size for entry in entries) > MAX_BYTES:
        raise DependencyUnusable(dependency.name, dependency.version, "it holds too much")
    for entry in entries:
        path = PurePosixPath(entry.filename)
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if path.is_absolute() or ".." in path.parts or "\\" in entry.filename or kind not in (0, stat.S_IFREG):
            raise DependencyUnusable(dependency.name, dependency.version, f"{entry.filename!r} is not a plain file")
        if not path.parts[0].endswith(".data"):
            yield entry, path
        elif len(path.parts) > 2 and path.parts[1] in INSTALLED:
            yield entry, PurePosixPath(*path.parts[2:])
