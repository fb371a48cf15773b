"""Copies a package to where agents look for skills, and never over something that is not an unedited copy of ours."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from instar.skills.errors import ExportRefused, SkillsError
from instar.skills.package import Package, check, read_package, sync_folder, write_package


def export_package(package: Package, target: Path, name: str) -> Path:
    """Write the package to `target/name`; an unedited export of the same lineage is replaced.

    Raises:
        ExportRefused: something else, or an edited export, is in the way.
        OSError: it cannot be written there; what was there is as it was.
    """
    folder, fresh, old = target / name, target / f".{name}.new", target / f".{name}.old"
    if os.path.lexists(old) and not os.path.lexists(folder):
        old.rename(folder)  # an earlier export stopped between its two renames
    if os.path.lexists(folder):
        _must_be_ours(folder, check(package).lineage)
    for left in (fresh, old):
        shutil.rmtree(left, ignore_errors=True)
    try:
        write_package(fresh, package)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    if folder.exists():
        folder.rename(old)
    fresh.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
    sync_folder(target)
    return folder


def _must_be_ours(folder: Path, lineage: str) -> None:
    try:
        manifest = check(read_package(folder))
    except (SkillsError, OSError) as error:
        raise ExportRefused(str(folder), f"is not an unedited export of ours ({error})") from error
    if manifest.lineage != lineage:
        raise ExportRefused(str(folder), f"belongs to lineage {manifest.lineage!r}")
