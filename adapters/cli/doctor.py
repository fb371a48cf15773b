"""`instar doctor`: what is present, what is missing, and the remedy."""

from __future__ import annotations

import typer

from instar.adapters.cli.options import AsJson, settings_of
from instar.adapters.cli.output import console, emit_json, table
from instar.core.doctor import Condition, examine


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


def doctor(context: typer.Context, as_json: AsJson = False) -> int:
    """Check this machine and this home. Exit code 3 when something needed is missing."""
    checks = examine(settings_of(context))
    if as_json:
        emit_json(checks)
    else:
        rows = [(c.part, c.condition.value, c.detail, c.remedy) for c in checks]
        console().print(table("", ("part", "condition", "detail", "remedy"), rows))
    return 3 if any(check.condition is Condition.MISSING for check in checks) else 0
