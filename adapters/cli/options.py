"""The options that commands share, and the settings that follow from them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from instar.core.runtime import Runtime, runtime
from instar.core.settings import Settings, load_settings

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="At most so many rows.")]

Flags = dict[str, str | int | bool]


def flags_of(context: typer.Context) -> Flags:
    """The global flags that were given."""
    flags = context.obj
    return dict(flags) if isinstance(flags, dict) else {}


def settings_of(context: typer.Context, **more: str | int | bool | Path | None) -> Settings:
    """Settings from files, environment and flags.

    Raises:
        SourceMissing: a value is not allowed.
    """
    return load_settings(os.environ, flags_of(context) | {k: v for k, v in more.items() if v is not None})


def project_folder() -> Path:
    """The folder whose `instar.toml` counts."""
    return Path(os.environ.get("INSTAR_PROJECT") or Path.cwd()).absolute()


@contextmanager
def opened(context: typer.Context, **more: str | int | bool | Path | None) -> Iterator[Runtime]:
    """The runtime for one command."""
    with runtime(settings_of(context, **more)) as rt:
        yield rt
