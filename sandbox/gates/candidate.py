"""What the later gates judge: a package whose manifest and cases could be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from instar.skills.cases import Case
from instar.skills.manifest import GrantedTool, Manifest
from instar.skills.package import Package, cases_of, parse_manifest


@dataclass(frozen=True, slots=True)
class Candidate:
    """A package, read once on the trusted side."""

    files: Package
    manifest: Manifest
    cases: Mapping[str, Case]
    libraries: Sequence[Path] = ()
    """Folders of the pinned wheels that the manifest names, unpacked."""

    @property
    def grants(self) -> dict[str, GrantedTool]:
        """The tools that the manifest asks for, by name."""
        return {tool.name: tool for tool in self.manifest.tools}


def read_candidate(files: Package) -> Candidate:
    """Read the manifest and the cases.

    Raises:
        ManifestRefused, CaseRefused: one of them cannot be read.
    """
    return Candidate(files, parse_manifest(files), cases_of(files))
