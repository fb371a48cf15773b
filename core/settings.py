"""Settings: `instar.toml` (project, then home), environment `INSTAR_…`, flags; the later wins."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from instar.core.errors import SourceMissing
from instar.core.hosts import host_folders
from instar.engine.llm.config import ModelSettings

CRON_FIELDS = 5
DEFAULT_HOME = "~/.instar"
PATHS = {"tools", "wheels", "home", "record", "replay", "handoff"}
"""Settings that are a path, relative to the file they stand in."""
LISTS = {"reviewers", "host_skills", "notify", "sources", "retry_seconds"}
"""Settings that hold several values, separated by commas in the environment."""


def local_zone() -> str:
    """The name of this machine's time zone; UTC where it has none that is known by name."""
    try:
        named = (
            os.environ.get("TZ", "").lstrip(":") or str(Path("/etc/localtime").readlink()).partition("zoneinfo/")[2]
        )
        ZoneInfo(named)
    except (OSError, ValueError, ZoneInfoNotFoundError):
        return "UTC"
    return named


class Source(BaseModel):
    """Where sessions are read from: one `[[sources]]` table of an `instar.toml`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    paths: tuple[str, ...] = Field(min_length=1)
    """Files, folders or patterns with `*` and `**`, absolute."""
    format: str = ""
    """The only format that is taken from here; empty takes every known one."""
    scope: str = Field(default="", pattern=r"^([A-Za-z0-9_-]+(/[A-Za-z0-9_.-]+)*)?$")
    """Below the scope of the installation, where these sessions are kept."""


class Settings(BaseModel):
    """Everything that can be configured. A plain value: it is passed, never looked up."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    home: Path = Field(description="Where Instar keeps everything it writes.")
    scope: str = Field(default="local", pattern=r"^[A-Za-z0-9_-]+(/[A-Za-z0-9_.-]+)*$")
    """Root of the scope paths that this installation reads and writes."""
    store_url: str = Field(default="", description="Where the pages live; empty means SQLite in the home folder.")
    engine: Literal["compiler", "model", "hybrid", "auto"] = "compiler"
    """`compiler` needs no model; `hybrid` asks one for what does not compile; `model` asks it for everything; `auto`
    is hybrid where an endpoint is configured, and otherwise the compiler."""
    models: ModelSettings = ModelSettings()
    record: Path | None = Field(default=None, description="Folder that completions are recorded in.")
    replay: Path | None = Field(default=None, description="Folder that completions are replayed from, with no model.")
    handoff: Path | None = Field(default=None, description="Folder for prompts and answers by hand, with no model.")
    run: str = Field(default="", max_length=100, description="What the caps of a run are counted for.")
    sandbox: Literal["auto", "bubblewrap", "docker"] = "auto"
    tools: Path | None = Field(default=None, description="tools.toml: how real tools are reached.")
    wheels: Path | None = Field(default=None, description="Folder of wheels that skills may bring, with their pins.")
    builtins: dict[str, Literal["http.get", "files.read", "files.write"]] = {}
    """Recorded tools that do what a built-in tool does: a model's skill calls that instead."""
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
    sources: tuple[Source, ...] = ()
    """What `instar ingest` without paths reads, and every night."""
    nightly: str = Field(default="30 3 * * *", description="When nights begin, as a cron line; empty: never.")
    timezone: str = Field(default_factory=local_zone, description="The zone that `nightly` is read in.")
    window_sessions: int = Field(default=20_000, ge=1)
    """A night reflects on the newest so many sessions at most."""
    debounce_seconds: float = Field(default=60.0, ge=0)
    """Failures of one agent with one cause start at most one reflection in this time."""
    retry_seconds: tuple[float, ...] = (10.0, 60.0, 300.0)
    """How long a night waits before each new attempt, where the engine, the sandbox or the store is unavailable."""
    silence_hours: float = Field(default=48.0, gt=0)
    """`instar status` raises an alarm when no session has arrived for so long, where there are sources."""
    embedder: str = "wordllama"
    """What makes vectors: `wordllama` (offline), `MODEL@http://HOST/v1`, or `sentence-transformers:MODEL`."""
    index_server: str = Field(default="", pattern=r"^([A-Za-z0-9_.-]+:\d{1,5})?$")
    """HOST:PORT of a Chroma server that keeps the vectors; empty keeps them in the home folder."""
    reranker: str = ""
    """What puts hits into their final order: nothing more, or `sentence-transformers:MODEL`, a cross-encoder."""
    rewrite: Literal["rules", "model"] = "rules"
    """What reads conditions out of a query: rules, or where they find none a model, if `engine` asks for one."""
    prime: bool = False
    """Agents are shown what other sessions know about their task, without asking for it."""
    index_days: int = Field(default=30, ge=1)
    """After so many days the single steps of sessions leave the index; what was learned from them stays."""

    @field_validator("builtins", mode="before")
    @classmethod
    def _pairs(cls, value: object) -> object:
        """As the environment gives it: name=builtin, separated by commas."""
        if isinstance(value, str):
            return {
                name.strip(): tool.strip() for name, _, tool in (pair.partition("=") for pair in value.split(","))
            }
        return value

    @field_validator("home", "tools", "wheels", "record", "replay", "handoff", mode="after")
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

    @field_validator("sources", mode="before")
    @classmethod
    def _plain_paths(cls, value: object) -> object:
        """A list of paths alone, as the environment gives it, is one source."""
        if isinstance(value, list | tuple) and value and all(isinstance(item, str) for item in value):
            return ({"paths": tuple(value)},)
        return value

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"{value!r} is not a time zone such as Europe/Berlin") from None
        return value

    @field_validator("nightly")
    @classmethod
    def _cron_line(cls, value: str) -> str:
        if value.strip() and len(value.split()) != CRON_FIELDS:
            raise ValueError(f"{value!r} is not a cron line such as '30 3 * * *'")
        return value.strip()

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
            relative = name in PATHS and isinstance(value, str)
            values[name] = (file.parent / Path(str(value)).expanduser()) if relative else value
            if name == "sources":
                values[name] = _placed(value, file.parent)
            origin[name] = str(file)
    for name in Settings.model_fields:
        variable = f"INSTAR_{name.upper()}"
        if environment.get(variable):
            text = environment[variable]
            listed = tuple(filter(None, text.split(",")))
            values[name] = listed if name in LISTS else text
            if name == "sources":
                values[name] = tuple(str(Path(path).expanduser().absolute()) for path in listed)
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
        place = ".".join(str(part) for part in first["loc"]) or name
        raise SourceMissing(
            f"{origin.get(name, 'settings')}: {place}: {first['msg']}", f"Known settings: {known}"
        ) from None


def _placed(sources: object, folder: Path) -> object:
    """The paths of `[[sources]]` tables, relative to the file they stand in; what is malformed is left for later."""
    if not isinstance(sources, list):
        return sources
    placed: list[object] = []
    for source in sources:
        paths = source.get("paths") if isinstance(source, dict) else None
        if isinstance(source, dict) and isinstance(paths, list):
            placed.append(source | {"paths": [str(folder / Path(str(path)).expanduser()) for path in paths]})
        else:
            placed.append(source)
    return placed


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
