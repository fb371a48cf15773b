"""`instar install` and `uninstall`: add Instar to an agent's host, and take it away again."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from instar.adapters.cli.options import AsJson, flags_of, settings_of
from instar.adapters.cli.output import console, emit_json, safe
from instar.adapters.install.edits import apply
from instar.adapters.install.hosts import HOSTS, Served
from instar.core.settings import DEFAULT_HOME

HostName = StrEnum("HostName", {name.replace("-", "_"): name for name in HOSTS})  # type: ignore[misc]
Which = Annotated[HostName, typer.Argument(help="The agent that you use.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the change; make none.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(install)
    app.command()(uninstall)


def install(
    context: typer.Context,
    host: Which,
    prime: Annotated[
        bool | None,
        typer.Option(
            "--prime/--no-prime",
            help="Claude Code: show at your first words what earlier sessions know; else as the setting `prime`.",
        ),
    ] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> int:
    """Add memory and skills to an agent's host: its MCP server, and for Claude Code its hooks.

    Only what is ours is added; everything else in the files stays as it is, comments too. A copy of each file is
    kept beside it. Doing it again changes nothing. A home or a scope that is not the default goes with it, since the
    host may not have this environment.
    """
    return _run(context, host, _served(context, prime), remove=False, dry_run=dry_run, as_json=as_json)


def uninstall(context: typer.Context, host: Which, dry_run: DryRun = False, as_json: AsJson = False) -> int:
    """Take away what `instar install` added, and nothing else."""
    return _run(context, host, Served(), remove=True, dry_run=dry_run, as_json=as_json)


def _run(
    context: typer.Context, host: HostName, served: Served, *, remove: bool, dry_run: bool, as_json: bool
) -> int:
    edits = HOSTS[host.value].plan(Path.home(), served, remove=remove)
    rows: list[dict[str, object]] = []
    out = console()
    for edit in edits:
        backup = None if dry_run else apply(edit)
        rows.append(
            {
                "file": str(edit.path),
                "changes": edit.changes,
                "diff": edit.diff,
                "backup": str(backup) if backup is not None else None,
            }
        )
        if as_json:
            continue
        if not edit.changes:
            out.print(f"{safe(edit.path)}: nothing to change", markup=False, soft_wrap=True)
            continue
        out.print(safe(edit.diff), markup=False, soft_wrap=True)
        if backup is not None:
            out.print(f"The former content is in {safe(backup)}", markup=False, soft_wrap=True)
    if as_json:
        emit_json({"host": host.value, "dry_run": dry_run, "files": rows})
    elif dry_run:
        out.print("Dry run: nothing was changed.")
    return 0


def _served(context: typer.Context, prime: bool | None) -> Served:
    settings = settings_of(context)
    home = settings.home.absolute()
    scope = settings.scope if "scope" in flags_of(context) or os.environ.get("INSTAR_SCOPE") else ""
    primes = settings.prime if prime is None else prime
    return Served("" if home == Path(DEFAULT_HOME).expanduser() else str(home), scope, primes)
