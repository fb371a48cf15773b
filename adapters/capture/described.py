"""The published skills with their descriptions, as an agent is told of them."""

from __future__ import annotations

from instar.core.runtime import Runtime
from instar.core.settings import Settings
from instar.core.skills import list_skills
from instar.memstore import Store
from instar.skills.errors import SkillsError
from instar.skills.registry import Status


def described_skills(settings: Settings, store: Store) -> list[tuple[str, str]]:
    """Name and description of every skill whose bytes are the approved ones."""
    try:
        rows = list_skills(Runtime(settings, store))
    except SkillsError:
        return []  # a skill that cannot be verified is not offered; `instar skills verify` names it
    return [(row.name, row.description) for row in rows if row.status == Status.INTACT.value]
