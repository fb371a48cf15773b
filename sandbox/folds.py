"""A hold-out: what the replay gate checks and the package never contains."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from instar.skills.cases import Case


class Fold(BaseModel):
    """The package as it is written without one task, and that task's cases."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str
    files: dict[str, str]
    cases: list[Case]
