"""Library sets of Instar's own environment that a job may be shown: the distributions one needs, and nothing else."""

from __future__ import annotations

from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from instar.sandbox.errors import InvalidJob
from instar.sandbox.interpreter import Place
from instar.sandbox.jobs import TOOLKITS

KNOWN: Final = {"pytest": "pytest"}
"""Short name to the distribution whose requirements are followed."""


@cache
def toolkit(name: str) -> tuple[Place, ...]:
    """The files and folders of a library set, and where the job sees them.

    Raises:
        InvalidJob: the set is unknown, or not installed beside Instar.
    """
    if name not in KNOWN:
        raise InvalidJob("toolkits", f"{name!r} is not one of: {', '.join(sorted(KNOWN))}")
    places: dict[str, Place] = {}
    for found in _closure(KNOWN[name]):
        for path in _top_level(found):
            places[path.name] = Place(path, f"{TOOLKITS}/{path.name}")
    return tuple(places[key] for key in sorted(places))


def _closure(name: str) -> list[Distribution]:
    waiting, found = [name], dict[str, Distribution]()
    while waiting:
        wanted = canonicalize_name(waiting.pop())
        if wanted in found:
            continue
        try:
            found[wanted] = distribution(wanted)
        except PackageNotFoundError:
            raise InvalidJob("toolkits", f"{wanted!r} is not installed beside Instar") from None
        waiting += _requirements(found[wanted])
    return list(found.values())


def _requirements(found: Distribution) -> list[str]:
    names = []
    for text in found.requires or ():
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            names.append(requirement.name)
    return names


def _top_level(found: Distribution) -> set[Path]:
    """The entries of site-packages that belong to a distribution; scripts and metadata are left out.

    What a Linux distribution installs has no list of files, but names its packages.
    """
    names = {path.parts[0] for path in found.files or () if path.suffix in (".py", ".so")}
    if not names:
        named = (found.read_text("top_level.txt") or found.metadata["Name"].replace("-", "_").lower()).split()
        names = {f"{name}{suffix}" for name in named for suffix in ("", ".py")}
    root = Path(str(found.locate_file("")))
    return {root / name for name in names if name not in ("..", "__pycache__") and (root / name).exists()}
