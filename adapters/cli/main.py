"""The `instar` command: every error a user can cause is one line, and every exit code means one thing."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text
from typer.exceptions import TyperException

from instar.adapters.cli import (
    capture,
    doctor,
    events,
    evolve,
    install,
    mcp,
    recall,
    review,
    sandbox,
    server,
    skills,
    spend,
    status,
    store,
)
from instar.adapters.cli.output import console, safe
from instar.core.errors import InstarError
from instar.engine.importers import SourceError
from instar.flows.errors import FlowsError
from instar.memstore import MemstoreError, ScopeDenied
from instar.sandbox.errors import SandboxError
from instar.skills.errors import SkillsError

EXIT_CODES = """Exit codes: 0 done; 1 the answer is no, or nothing of that name; 2 wrong usage; 3 something needed is
missing or could not be evaluated; 4 the page store failed; 5 refused; 130 interrupted."""

INTERRUPTED = 130

# More specific errors come first.
CODES: dict[type[Exception], int] = {
    SourceError: 3,
    SandboxError: 3,
    FlowsError: 3,
    ScopeDenied: 5,
    MemstoreError: 4,
    SkillsError: 5,
}
REFUSED = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EROFS: "name a place that can be written",
    errno.EACCES: "give this user the permission, or name another place",
    errno.EPERM: "give this user the permission, or name another place",
}
"""What the machine refuses to any command, by the number of the system's error, and the remedy."""
KNOWN: tuple[type[Exception], ...] = (InstarError, *CODES)

app = typer.Typer(
    name="instar",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def common(
    context: typer.Context,
    home: Annotated[
        Path | None,
        typer.Option(
            "--home", readable=False, help="Where Instar keeps everything (INSTAR_HOME, default ~/.instar)."
        ),
    ] = None,
    scope: Annotated[
        str | None, typer.Option("--scope", help="Root of the scopes to work in (default local).")
    ] = None,
) -> None:
    """Turn what your agents went through into small, tested, reviewed skills.

    Start with `instar evolve PATH…` on a folder of agent sessions, for example ~/.claude/projects. Then
    `instar review list` shows what waits for you, and `instar skills run NAME` uses what you approved.
    """
    context.obj = {name: str(value) for name, value in (("home", home), ("scope", scope)) if value is not None}


evolve.register(app)
install.register(app)
capture.register(app)
server.register(app)
status.register(app)
events.register(app)
doctor.register(app)
spend.register(app)
store.register(app)
recall.register(app, store.pages_app)
app.add_typer(review.app, name="review")
app.add_typer(skills.app, name="skills")
app.add_typer(sandbox.app, name="sandbox")
app.add_typer(mcp.app, name="mcp")


def main() -> None:
    """Run a command; turn errors into one line and an exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code."""
    try:
        code = app(arguments, standalone_mode=False)
        sys.stdout.flush()
    except KNOWN as error:
        return _fail(error, exit_code(error))
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except (BrokenPipeError, SystemExit):
        # Whoever read our output has gone (`| head`); the command parser turns that into an exit when it meets it
        # first. Closing quietly is what other commands do.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except OSError as error:
        if error.errno not in REFUSED:
            raise
        place = f"{error.filename}: " if error.filename else ""
        return _fail(f"{place}{error.strerror}; {REFUSED[error.errno]}, and run the same command again", 3)
    except typer.Exit as stop:
        code = stop.exit_code
    except TyperException as error:
        path = getattr(getattr(error, "ctx", None), "command_path", "instar")
        return _fail(f"{error} Try: {path} --help", 2)
    if code == INTERRUPTED:
        return _fail("Interrupted; what was finished is kept, and the same command continues", INTERRUPTED)
    return code if isinstance(code, int) else 0


def exit_code(error: Exception) -> int:
    """The exit code of an error that a user can meet."""
    if isinstance(error, InstarError):
        return error.exit_code
    return next(code for kind, code in CODES.items() if isinstance(error, kind))


def _fail(error: object, code: int) -> int:
    line = " ".join(safe(error).split())
    console(error=True).print(Text(f"instar: {line}"), soft_wrap=True)
    return code
