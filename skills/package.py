"""A skill package as an immutable mapping of relative path to bytes, its digest and its seal."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from instar.skills.cases import Case
from instar.skills.errors import CaseRefused, ManifestRefused, PackageRefused
from instar.skills.manifest import Manifest

MAX_FILES = 64
MAX_FILE_BYTES = 256 * 1024
MAX_PACKAGE_BYTES = 2 * 1024 * 1024
MAX_PATH_LENGTH = 128
MAX_DEPTH = 4
MANIFEST = "scripts/manifest.json"
SKILL_MD = "SKILL.md"
SKILL_PY = "scripts/skill.py"
TEST_PY = "tests/test_skill.py"
PRD_MD = "references/prd.md"
CASES = "tests/cases/"

Files = Mapping[str, str | bytes]
"""What the functions here accept: text is taken as UTF-8."""

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*", re.ASCII)
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.ASCII)


class Package(Mapping[str, bytes]):
    """The files of one package, in order of their paths, within the limits of the format.

    Raises:
        PackageRefused: a path, a size or the number of files is outside the format.
    """

    __slots__ = ("_digest", "_files")

    def __init__(self, files: Files) -> None:
        encoded = {
            path: content.encode("utf-8") if isinstance(content, str) else bytes(content)
            for path, content in sorted(files.items())
        }
        check_limits(encoded)
        self._files = encoded
        self._digest = content_digest(encoded)

    def __getitem__(self, path: str) -> bytes:
        return self._files[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __repr__(self) -> str:
        return f"Package({len(self)} files, {self._digest})"

    @property
    def digest(self) -> str:
        """`sha256:` and the hash over all paths and contents."""
        return self._digest

    def text(self, path: str) -> str:
        """The file as text.

        Raises:
            KeyError: there is no such file.
            PackageRefused: it is not UTF-8.
        """
        try:
            return self._files[path].decode("utf-8")
        except UnicodeDecodeError as error:
            raise PackageRefused(path, "is not UTF-8 text") from error


def check_path(path: str) -> None:
    """Accept plain relative POSIX paths of ASCII names only.

    Raises:
        PackageRefused: absolute, `..`, hidden, reserved, too long or too deep.
    """
    parts = path.split("/")
    if len(path) > MAX_PATH_LENGTH or len(parts) > MAX_DEPTH:
        raise PackageRefused(path[:MAX_PATH_LENGTH], "path is too long or too deep")
    for part in parts:
        if not _PART.fullmatch(part) or part.endswith(".") or _RESERVED.fullmatch(part):
            raise PackageRefused(path, "is not a plain relative path of ASCII names")


def check_limits(files: Mapping[str, bytes]) -> None:
    """Check paths, number of files and sizes.

    Raises:
        PackageRefused: naming the first file outside the limits.
    """
    if len(files) > MAX_FILES:
        raise PackageRefused("", f"{len(files)} files; the limit is {MAX_FILES}")
    folded: dict[str, str] = {}
    folders: set[str] = set()
    for path, content in files.items():
        check_path(path)
        if len(content) > MAX_FILE_BYTES:
            raise PackageRefused(path, f"{len(content)} bytes; the limit is {MAX_FILE_BYTES} for one file")
        other = folded.setdefault(path.casefold(), path)
        if other != path:
            raise PackageRefused(path, f"differs from {other!r} only in case")
        parts = path.casefold().split("/")
        folders.update("/".join(parts[:depth]) for depth in range(1, len(parts)))
    for folder in folders & folded.keys():
        raise PackageRefused(folded[folder], "is a file and a folder at once")
    total = sum(map(len, files.values()))
    if total > MAX_PACKAGE_BYTES:
        raise PackageRefused("", f"{total} bytes; the limit is {MAX_PACKAGE_BYTES} in all")


def digest(files: Files) -> str:
    """`sha256:…` over the sorted paths and contents; the same files give the same digest everywhere.

    Raises:
        PackageRefused: the files are not a package.
    """
    return Package(files).digest


def seal(files: Mapping[str, str], manifest: Manifest) -> dict[str, str]:
    """The files with `scripts/manifest.json` written anew: `manifest.files` is replaced by what is really there.

    Raises:
        PackageRefused: the files are not a package.
    """
    rest = {path: text for path, text in files.items() if path != MANIFEST}
    truthful = manifest.model_copy(update={"files": _hashes(Package(rest))})
    sealed = {**rest, MANIFEST: canonical_json(truthful.model_dump(mode="json"))}
    check_limits(Package(sealed))
    return dict(sorted(sealed.items()))


def parse_manifest(files: Mapping[str, bytes]) -> Manifest:
    """The manifest of a package, as it stands (see `check` for whether it is true).

    Raises:
        ManifestRefused: missing, not JSON, duplicate keys, or not a manifest.
    """
    if MANIFEST not in files:
        raise ManifestRefused(("is missing",))
    try:
        value = parse_json(files[MANIFEST])
        return Manifest.model_validate(value)
    except ValidationError as error:
        problems = (f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise ManifestRefused(tuple(problems)) from error
    except (ValueError, RecursionError) as error:
        raise ManifestRefused((f"is not JSON: {error}",)) from error


def check(files: Mapping[str, bytes]) -> Manifest:
    """Check that the manifest names every other file with its true hash, and nothing else.

    Raises:
        PackageRefused: the files are not a package.
        ManifestRefused: naming every file that is missing, extra or different.
    """
    manifest = parse_manifest(files)
    changed = differences(Package(dict(files)), manifest)
    if changed:
        raise ManifestRefused(tuple(changed))
    return manifest


def differences(files: Mapping[str, bytes], manifest: Manifest) -> list[str]:
    """What differs between the manifest's list and the files, one sentence each; empty when nothing does."""
    actual = _hashes(files)
    problems = [f"{path} is not in the manifest" for path in sorted(actual.keys() - manifest.files.keys())]
    problems += [f"{path} is missing" for path in sorted(manifest.files.keys() - actual.keys())]
    common = sorted(actual.keys() & manifest.files.keys())
    return problems + [f"{path} has another hash" for path in common if actual[path] != manifest.files[path]]


def cases_of(files: Mapping[str, bytes]) -> dict[str, Case]:
    """The recorded cases of a package by path, in order.

    Raises:
        CaseRefused: a file under tests/cases/ is not a case, or holds NaN or an infinity.
    """
    found: dict[str, Case] = {}
    for path in sorted(files):
        if not path.startswith(CASES):
            continue
        try:
            found[path] = Case.model_validate(parse_json(files[path]))
        except ValidationError as error:
            item = error.errors()[0]
            raise CaseRefused(path, f"{'.'.join(map(str, item['loc']))}: {item['msg']}") from error
        except (ValueError, RecursionError) as error:
            raise CaseRefused(path, f"is not JSON: {error}") from error
    return found


def runtime_files(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """What a run of the skill sees, in a gate as in use: everything but its tests, whose cases hold the answers."""
    return {path: content for path, content in files.items() if not path.startswith(("tests/", "evals/"))}


def read_package(folder: Path) -> Package:
    """Read a folder as a package without following any link.

    Raises:
        PackageRefused: symlinks, executables, devices, path tricks, too many or too large files.
        OSError: the folder cannot be read.
    """
    files: dict[str, bytes] = {}
    total = 0
    for base, folders, names, descriptor in os.fwalk(folder, follow_symlinks=False):
        relative = Path(base).relative_to(folder).as_posix()
        prefix = "" if relative == "." else f"{relative}/"
        for name in folders:
            check_path(f"{prefix}{name}")
            if not stat.S_ISDIR(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                raise PackageRefused(f"{prefix}{name}", "is a symbolic link")
        for name in names:
            path = f"{prefix}{name}"
            check_path(path)
            if len(files) == MAX_FILES:
                raise PackageRefused(path, f"is one file more than the limit of {MAX_FILES}")
            files[path] = _read_file(path, name, descriptor)
            total += len(files[path])
            if total > MAX_PACKAGE_BYTES:
                raise PackageRefused(path, f"makes the package larger than {MAX_PACKAGE_BYTES} bytes")
    return Package(files)


def write_package(folder: Path, files: Files) -> None:
    """Write the files into a folder that does not exist yet, read-only, each flushed to disk.

    Raises:
        FileExistsError: the folder exists.
        PackageRefused: the files are not a package.
    """
    package = Package(files)
    folder.mkdir(parents=True)
    folders = {folder}
    for path, content in package.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        folders.update(parent for parent in target.parents if parent.is_relative_to(folder))
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o444)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    for written in folders:
        sync_folder(written)


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def canonical_json(value: object) -> str:
    """JSON with sorted keys, two spaces, ASCII, one newline at the end; refuses NaN and infinities."""
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=True, allow_nan=False) + "\n"


def parse_json(content: bytes) -> object:
    """Parse strict JSON: UTF-8, no duplicate keys, no NaN or infinity.

    Raises:
        ValueError: anything else, in words.
    """
    return json.loads(content.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key appears twice in one object")
    return found


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _hashes(files: Mapping[str, bytes]) -> dict[str, str]:
    return {path: hashlib.sha256(content).hexdigest() for path, content in files.items() if path != MANIFEST}


def content_digest(files: Mapping[str, bytes]) -> str:
    """The digest of any files, whether or not they are a package; names a draft that was refused."""
    whole = hashlib.sha256()
    for path, content in sorted(files.items()):
        for part in (path.encode("utf-8", "surrogatepass"), content):
            whole.update(len(part).to_bytes(8, "big"))
            whole.update(part)
    return f"sha256:{whole.hexdigest()}"


def _read_file(path: str, name: str, descriptor: int) -> bytes:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    before = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    if not stat.S_ISREG(before.st_mode):
        raise PackageRefused(path, "is a link, a device or another special file")
    with os.fdopen(os.open(name, flags, dir_fd=descriptor), "rb") as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise PackageRefused(path, "is a link, a device or another special file")
        if status.st_mode & 0o111:
            raise PackageRefused(path, "is executable")
        content = stream.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise PackageRefused(path, f"is larger than {MAX_FILE_BYTES} bytes")
    return content
