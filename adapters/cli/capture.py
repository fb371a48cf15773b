"""`instar capture` and `instar hook`: what agents left in the spool, and the hook as a command."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from instar.adapters.claude_code import hook as claude_code
from instar.adapters.cli.options import AsJson, opened, settings_of
from instar.adapters.cli.output import console, emit_json, progress_shown, safe
from instar.core.drain import TRACES, spool_alarms
from instar.core.drain import drain as drain_spool
from instar.core.runtime import prepare_home
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


@app.command()
def otlp(
    context: typer.Context,
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Where exporters send to.")] = 4318,
) -> int:
    """Receive OpenTelemetry traces on http://127.0.0.1:PORT/v1/traces, until Ctrl-C.

    Point an instrumented agent at it with OTEL_EXPORTER_OTLP_ENDPOINT. Spans are kept without secrets, and become
    sessions with the next `instar ingest`, `instar capture drain` or night.
    """
    # Only who receives needs a web server.
    import uvicorn  # noqa: PLC0415

    from instar.adapters.otlp.receiver import receiver  # noqa: PLC0415

    settings = settings_of(context)
    prepare_home(settings)
    console(error=True).print(f"http://127.0.0.1:{port}/v1/traces   (Ctrl-C stops it)", markup=False)
    uvicorn.run(receiver(settings.home / TRACES), host="127.0.0.1", port=port, log_level="warning")
    return 0


def hook(context: typer.Context) -> int:
    """Keep what a hook of Claude Code says on standard input. `instar install claude-code` uses a faster way."""
    settings = settings_of(context)
    return claude_code.main(str(settings.home), prime=settings.prime)
