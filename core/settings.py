"""Settings: `instar.toml` (project, then home), environment `INSTAR_…`, flags; the later wins."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from instar.core.errors import SourceMissing
from instar.core.hosts import host_folders

DEFAULT_HOME = "~/.instar"
LISTS = {"reviewers", "host_skills", "notify"}
"""Settings that hold several values, separated by commas in the environment."""


class Settings(BaseModel):
    """Everything that can be configured. A plain value: it is passed, never looked up."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    home: Path = Field(description="Where Instar keeps everything it writes.")
    scope: str = Field(default="local", pattern=r"^[A-Za-z0-9_-]+(/[A-Za-z0-9_.-]+)*$")
    """Root of the scope paths that this installation reads and writes."""
    store_url: str = Field(default="", description="Where the pages live; empty means SQLite in the home folder.")
    engine: Literal["compiler"] = "compiler"
    sandbox: Literal["auto", "bubblewrap", "docker"] = "auto"
    tools: Path | None = Field(default=None, description="tools.toml: how real tools are reached.")
    reviewers: tuple[str, ...] = ()
    """Who may decide; empty means any name is accepted."""
    review_days: int = Field(default=14, ge=1, le=365, description="A review that waits longer expires.")
    notify: tuple[str, ...] = ()
    """Who is told of waiting reviews and failed nights: Prefect blocks ("slack-webhook/team"), or environment
    variables that hold a URL ("env:INSTAR_WEBHOOK"). No URL stands here: it is a secret."""
    host_skills: tuple[Path, ...] = ()
    """Folders with skills of the agents' hosts; what exists there is not proposed again."""
    proposals: int = Field(default=5, ge=1, le=50, description="At most so many proposals per reflection.")
    language: Literal["en", "zh"] = "en"
    """What requirements are written in."""
    include_headless: bool = False
    include_subagents: bool = False

    @field_validator("home", "tools", mode="after")
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        return None if value is None else value.expanduser().absolute()

    @field_validator("notify", mode="after")
    @classmethod
    def _no_secret(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for entry in value:
            if not re.fullmatch(r"env:[A-Za-z_][A-Za-z0-9_]*|[a-z0-9-]+/[a-z0-9-]+", entry):
                raise ValueError("name a Prefect block as type/name or a variable as env:NAME; a URL is a secret")
        return value

    @property
    def database(self) -> str:
        """The URL of the page store."""
        return self.store_url or f"sqlite:///{self.home / 'store.db'}"


def load_settings(
    environment: Mapping[str, str], flags: Mapping[str, object], *, project: Path | None = None
) -> Settings:
    """Merge the project's and the home's `instar.toml`, the environment, and the flags that were given.

    `project` is the folder whose `instar.toml` counts: where it is not given that which INSTAR_PROJECT names, or the
    current one. A relative path in an `instar.toml` is relative to that file. Flags that are None were not given.

    Raises:
        SourceMissing: a file cannot be read, or a value is not allowed; the message names file and key.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    chosen_home = given.get("home") or environment.get("INSTAR_HOME") or DEFAULT_HOME
    home = Path(str(chosen_home)).expanduser().absolute()
    project = project or Path(environment.get("INSTAR_PROJECT") or Path.cwd())
    values: dict[str, object] = {}
    origin: dict[str, str] = {}
    for file in (project / "instar.toml", home / "instar.toml"):
        for name, value in _read(file).items():
            relative = name in {"tools", "home"} and isinstance(value, str)
            values[name] = (file.parent / Path(str(value)).expanduser()) if relative else value
            origin[name] = str(file)
    for name in Settings.model_fields:
        variable = f"INSTAR_{name.upper()}"
        if environment.get(variable):
            text = environment[variable]
            values[name] = tuple(filter(None, text.split(","))) if name in LISTS else text
            origin[name] = f"the environment variable {variable}"
    for name, value in given.items():
        values[name] = value
        origin[name] = f"the flag --{name.replace('_', '-')}"
    values["home"] = home
    values.setdefault("host_skills", host_folders(project, Path("~").expanduser()))
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else "?"
        known = ", ".join(Settings.model_fields)
        raise SourceMissing(
            f"{origin.get(name, 'settings')}: {name}: {first['msg']}", f"Known settings: {known}"
        ) from None


def _read(file: Path) -> dict[str, object]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        remedy = "Get access to it, or set INSTAR_HOME to a folder of your own"
        raise SourceMissing(f"{file}: {error.strerror}", remedy) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SourceMissing(f"{file}: {error}", "Correct the file or remove it") from None
