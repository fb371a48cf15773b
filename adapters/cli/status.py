"""`instar status`: everything at a glance."""

from __future__ import annotations

from datetime import datetime

import typer
from rich.console import Console
from rich.text import Text

from instar.adapters.cli.options import AsJson, opened
from instar.adapters.cli.output import console, emit_json, safe
from instar.flows.status import Overview, overview

MISSING, ALARM = 3, 1


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(status)


def status(context: typer.Context, as_json: AsJson = False) -> int:
    """Show what runs, the last and the next night, what waits for a person, and alarms.

    Exit code 3 when the server or the worker does not run, 1 when there is an alarm.
    """
    with opened(context) as rt:
        seen = overview(rt)
        wished = rt.settings.nightly
    if as_json:
        emit_json(seen)
    else:
        _show(console(), seen, wished)
    return MISSING if not seen.runs else ALARM if seen.alarms else 0


def _show(out: Console, seen: Overview, wished: str) -> None:
    where = seen.server or "`instar up` starts it"
    serves = f" ({', '.join(seen.serves)})" if seen.serves else ""
    night = seen.last_night
    rows = [
        ("server", f"{seen.state} ({where})"),
        ("worker", f"{seen.worker}{serves}"),
        ("vectors", seen.vectors or "kept elsewhere"),
        (
            "last night",
            "none yet"
            if night is None
            else f"number {night.number}: {night.state}, {night.sessions} sessions, began {_local(night.opened_at)}",
        ),
        ("next night", _local(seen.next_night) or f"not scheduled; {_remedy(wished, seen.worker)}"),
        ("reviews that wait", ", ".join(seen.pending_reviews) or "none"),
        ("failures that wait", str(seen.waiting_events)),
        ("last session", _local(seen.last_session) or "none yet"),
        ("last failed run", seen.last_failure or "none"),
    ]
    for name, value in rows:
        out.print(Text(f"{name + ':':<20}{safe(value)}"), soft_wrap=True)
    for alarm in seen.alarms:
        out.print(Text(f"ALARM  {safe(alarm)}", style="bold red"), soft_wrap=True)


def _remedy(nightly: str, worker: str) -> str:
    if not nightly:
        return "set `nightly` in instar.toml"
    return (
        f"the server does it within a minute ({nightly})"
        if worker == "running"
        else f"`instar up` does it ({nightly})"
    )


def _local(stamp: str) -> str:
    """A time as the clock on the wall shows it."""
    return f"{datetime.fromisoformat(stamp).astimezone():%Y-%m-%d %H:%M %Z}" if stamp else ""
