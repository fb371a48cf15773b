"""Which version of a skill is in force, where a person decided otherwise than "the newest".

A standing names the newest version that there was when it was decided. It holds until a newer one is published: so
publishing needs no second step that a crash could leave out.
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from instar.skills.errors import RecordRefused
from instar.skills.manifest import NAME_PATTERN, NAME_REGEX, VERSION_PATTERN
from instar.skills.package import sync_folder

FILE = "standing.json"


class Standing(BaseModel):
    """One person's decision that an older version, or none, is in force."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=NAME_PATTERN, max_length=64)
    version: str = Field(pattern=rf"^$|{VERSION_PATTERN}")
    """The version in force; empty when the skill is retired."""
    digest: str = Field(pattern=r"^$|^sha256:[0-9a-f]{64}$")
    after: str = Field(pattern=VERSION_PATTERN)
    """The newest version at that time; a newer one ends this standing."""
    decision: str = Field(min_length=1)
    """The page of the decision."""
    by: str = Field(min_length=1)
    at: datetime


def read_standing(folder: Path, name: str) -> Standing | None:
    """The standing of a skill in its folder of records; None where nobody decided otherwise.

    Raises:
        RecordRefused: it cannot be read, or is about another skill.
    """
    if not NAME_REGEX.fullmatch(name):
        return None
    try:
        text = (folder / name / FILE).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RecordRefused(name, FILE, f"cannot be read: {error}") from error
    try:
        standing = Standing.model_validate_json(text)
    except ValidationError as error:
        raise RecordRefused(name, FILE, f"cannot be read: {error}") from error
    if standing.name != name:
        raise RecordRefused(name, FILE, "is about another skill")
    return standing


def write_standing(folder: Path, standing: Standing) -> None:
    """Write or replace a standing in one step, flushed to disk."""
    path = folder / standing.name / FILE
    fresh = path.with_suffix(".new")
    with fresh.open("w", encoding="utf-8") as stream:
        stream.write(standing.model_dump_json(indent=2) + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    fresh.rename(path)
    sync_folder(path.parent)
