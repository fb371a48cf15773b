"""`instar capture` and `instar hook`: what agents left in the spool, and the hook as a command."""

from __future__ import annotations

from datetime import UTC, datetime

import typer

from instar.adapters.claude_code import hook as claude_code
from instar.adapters.cli.options import AsJson, opened, settings_of
from instar.adapters.cli.output import console, emit_json, progress_shown, safe
from instar.core.drain import drain as drain_spool
from instar.core.drain import spool_alarms
from instar.core.spool import folder_of, waiting

app = typer.Typer(no_args_is_help=True, help="What recorded agents left in the spool, and storing it.")
ALARM = 1


def register(main: typer.Typer) -> None:
    """Add the commands."""
    main.add_typer(app, name="capture")
    main.command(hidden=True)(hook)


@app.command()
def status(context: typer.Context, as_json: AsJson = False) -> int:
    """Show what waits to be stored. Exit code 1 when something hinders it."""
    settings = settings_of(context)
    found, alarms = waiting(folder_of(str(settings.home))), spool_alarms(settings)
    since = datetime.fromtimestamp(found.since, UTC).isoformat(timespec="seconds") if found.files else ""
    if as_json:
        emit_json({"files": found.files, "bytes": found.bytes, "since": since, "alarms": alarms})
    else:
        out = console()
        waits = f"{found.files} files ({found.bytes} bytes) wait since {since}" if found.files else "nothing waits"
        out.print(waits, markup=False)
        for alarm in alarms:
            out.print(f"ALARM  {safe(alarm)}", markup=False, soft_wrap=True)
    return ALARM if alarms else 0


@app.command()
def drain(context: typer.Context, as_json: AsJson = False) -> int:
    """Store what is in the spool now; `instar ingest` and every night do it too."""
    with opened(context) as rt, progress_shown(quiet=as_json):
        done = drain_spool(rt)
    if as_json:
        emit_json(done)
    else:
        console().print(
            f"{done.events} events of {done.sessions} sessions stored, {done.transcripts} transcripts read, "
            f"{done.unreadable} lines unreadable, {done.refused} refused",
            markup=False,
            soft_wrap=True,
        )
    return 0


def hook(context: typer.Context) -> int:
    """Keep what a hook of Claude Code says on standard input. `instar install claude-code` uses a faster way."""
    return claude_code.main()
