"""The wheels that skills may bring along: a folder of files, and beside them the pins and hashes that are allowed.

    wheels/
      requirements.txt              # pypdf==6.1.0 --hash=sha256:…   (what `uv pip compile --generate-hashes` writes)
      pypdf-6.1.0-py3-none-any.whl  # what `pip download --no-deps --require-hashes` fetches

Only wheels that run everywhere are taken: pure Python, for any platform. Nothing is fetched, and nothing of a wheel
is run to read it.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.parser import HeaderParser
from pathlib import Path
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from instar.sandbox.errors import ShelfUnusable
from instar.sandbox.protocol import MIB
from instar.skills.manifest import Dependency

LOCK: Final = "requirements.txt"
MAX_WHEEL: Final = 64 * MIB
MAX_METADATA: Final = MIB
SUMMARY: Final = 160
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
REMEDY: Final = "Write NAME==VERSION --hash=sha256:HASH, as `uv pip compile --generate-hashes` does"


@dataclass(frozen=True, slots=True)
class AllowedWheel:
    """One wheel of the shelf: its pin with what it is imported as, what it says of itself, what it needs."""

    pin: Dependency
    summary: str = ""
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shelf:
    """The allowed wheels by canonical name, each with everything that it needs; the others, with the reason."""

    wheels: Mapping[str, AllowedWheel] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)

    def with_needs(self, names: Sequence[str]) -> list[Dependency]:
        """The pins of these wheels and of all that they need, by name; unknown names are passed over."""
        waiting, found = [str(canonicalize_name(name)) for name in names], dict[str, Dependency]()
        while waiting:
            name = waiting.pop()
            if name in self.wheels and name not in found:
                found[name] = self.wheels[name].pin
                waiting += self.wheels[name].needs
        return [found[name] for name in sorted(found)]


def open_shelf(folder: Path) -> Shelf:
    """Read the pins and the wheels of a folder.

    Raises:
        ShelfUnusable: the list cannot be read, a line pins nothing, or a file is not the one that was pinned.
    """
    found: dict[str, AllowedWheel] = {}
    left_out: dict[str, str] = {}
    for name, (version, hashes) in _pins(folder / LOCK).items():
        wheel = _read(folder, name, version, hashes)
        if isinstance(wheel, str):
            left_out[name] = wheel
        else:
            found[name] = wheel
    while True:
        lacking = {
            name: f"it needs {need}, which is not on the shelf"
            for name, wheel in found.items()
            for need in wheel.needs
            if need not in found
        }
        if not lacking:
            return Shelf(found, left_out)
        left_out |= lacking
        found = {name: wheel for name, wheel in found.items() if name not in lacking}


def _pins(file: Path) -> dict[str, tuple[str, list[str]]]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is no text"
        raise ShelfUnusable(str(file), f"cannot be read: {reason}", REMEDY) from None
    pins: dict[str, tuple[str, list[str]]] = {}
    for line in re.sub(r"\\\n", " ", text).splitlines():
        spelled = re.sub(r"(^|\s)#.*", "", line).strip()
        if not spelled:
            continue
        hashes = _HASH.findall(spelled)
        wanted = _HASH.sub("", spelled).strip()
        try:
            requirement = Requirement(wanted)
        except InvalidRequirement:
            raise ShelfUnusable(str(file), f"{wanted[:80]!r} is no pin", REMEDY) from None
        exact = [part for part in requirement.specifier if part.operator == "==" and "*" not in part.version]
        if len(exact) != 1 or len(requirement.specifier) != 1 or requirement.url or not hashes:
            raise ShelfUnusable(str(file), f"{wanted[:80]!r} has no exact version or no hash", REMEDY)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            pins[canonicalize_name(requirement.name)] = exact[0].version, sorted(set(hashes))
    return pins


def _read(folder: Path, name: str, version: str, hashes: Sequence[str]) -> AllowedWheel | str:
    """The wheel that a pin stands for, or why there is none to use.

    Raises:
        ShelfUnusable: the only files of that name and version have other hashes.
    """
    others = []
    for path in _files(folder, name, version):
        if path.stat().st_size > MAX_WHEEL:
            return f"{path.name} is larger than {MAX_WHEEL // MIB} MiB"
        if hashlib.sha256(path.read_bytes()).hexdigest() not in hashes:
            others.append(path.name)
            continue
        tags = parse_wheel_filename(path.name)[3]
        if all(tag.platform != "any" or tag.abi != "none" for tag in tags):
            return f"{path.name} is not pure Python"
        return _described(path, Dependency(name=name, version=version, sha256=list(hashes)))
    if others:
        remedy = "Fetch it again, or correct the hash if you trust this file"
        raise ShelfUnusable(str(folder / others[0]), "is not the file whose hash is pinned", remedy)
    return "its wheel is not in the folder"


def _files(folder: Path, name: str, version: str) -> Iterator[Path]:
    for path in sorted(folder.glob("*.whl")):
        try:
            found, number, _, _ = parse_wheel_filename(path.name)
        except InvalidWheelFilename:
            continue
        if found == name and str(number) == version:
            yield path


def _described(path: Path, pin: Dependency) -> AllowedWheel | str:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            metadata = next(name for name in names if re.fullmatch(r"[^/]+\.dist-info/METADATA", name))
            if archive.getinfo(metadata).file_size > MAX_METADATA:
                return "it says too much about itself"
            headers = HeaderParser().parsestr(archive.read(metadata).decode("utf-8", "replace"))
    except (OSError, StopIteration, zipfile.BadZipFile, NotImplementedError, RuntimeError):
        return f"{path.name} is no wheel that can be read"
    modules = {
        name.partition("/")[0].removesuffix(".py")
        for name in names
        if name.endswith(".py") and ".dist-info" not in name and ".data/" not in name
    }
    importable = sorted(module for module in modules if module.isidentifier())
    needs = []
    for text in headers.get_all("Requires-Dist") or ():
        try:
            need = Requirement(text)
        except InvalidRequirement:
            return "what it needs cannot be read"
        if need.marker is None or need.marker.evaluate({"extra": ""}):
            needs.append(str(canonicalize_name(need.name)))
    summary = " ".join(str(headers.get("Summary") or "").split())[:SUMMARY]
    return AllowedWheel(pin.model_copy(update={"modules": importable}), summary, tuple(needs))
