"""Skills that are installed where agents look for them: read only, so that nothing is proposed that exists there."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from skills_ref.errors import SkillError
from skills_ref.parser import parse_frontmatter

from instar.engine.documents import CatalogueEntry

FOLDERS = (Path(".claude/skills"), Path(".agents/skills"))
"""Below the project and below the user's home; a project's skill comes before a user's of the same name."""
MAX_SKILLS = 500
MAX_BYTES = 262_144
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*")


def host_folders(project: Path, home: Path) -> tuple[Path, ...]:
    """Where the known hosts look."""
    return tuple(root / folder for root in (project, home) for folder in FOLDERS)


def host_skills(folders: Sequence[Path], ours: Collection[str]) -> list[CatalogueEntry]:
    """The skills in these folders, except `ours`, which are exported copies.

    What such a skill calls is not stated anywhere, so every word of its text that can name a tool counts as one. A
    folder that cannot be read or is no skill is passed over: it is not ours to complain about.
    """
    found: dict[str, CatalogueEntry] = {}
    for place in _places(folders):
        text = _text(place / "SKILL.md")
        if text is None or place.name in ours or place.name in found:
            continue
        try:
            front, body = parse_frontmatter(text)
        except SkillError:
            continue
        found[place.name] = CatalogueEntry(
            name=place.name,
            version="",
            description=str(front.get("description", ""))[:1024],
            tools=tuple(sorted(set(_NAME.findall(body.replace("\\_", "_"))))),
            lineage="",
            own=False,
        )
    return list(found.values())


def _places(folders: Sequence[Path]) -> Iterator[Path]:
    for folder in folders:
        try:
            yield from sorted(folder.iterdir())[:MAX_SKILLS]
        except OSError:
            continue


def _text(file: Path) -> str | None:
    try:
        if file.stat().st_size > MAX_BYTES:
            return None
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
