"""`instar event` and `instar feedback`: tell Instar what went wrong, or right."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from instar.adapters.cli.options import AsJson, opened
from instar.adapters.cli.output import console, emit_json
from instar.core.events import event_name, give_feedback, tell

Note = Annotated[str, typer.Option("--note", help="What happened, in your words.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(event)
    app.command()(feedback)


def event(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(help="task.failed, task.struggled, tool.missing or feedback.negative.", show_default=False),
    ],
    agent: Annotated[str, typer.Option("--agent", help="Who it happened to.")] = "",
    cause: Annotated[str, typer.Option("--cause", help="The tool or part that failed; groups what is alike.")] = "",
    session: Annotated[str, typer.Option("--session", help="The session it happened in, if it is stored.")] = "",
    note: Note = "",
    as_json: AsJson = False,
) -> int:
    """Tell of a failure. It is kept at once; while `instar up` runs, a reflection on it starts within seconds.

    Failures of one agent with one cause are reflected on together. Sessions that fail are told of by themselves when
    they are read.
    """
    with opened(context) as rt:
        kept = tell(rt, event_name(name), agent=agent, cause=cause, session=session, note=note)
    if as_json:
        emit_json({"event": kept})
    else:
        console().print(f"Kept as {kept}.", markup=False)
    return 0


def feedback(
    context: typer.Context,
    session: Annotated[str, typer.Argument(help="Page id or key of a session.", show_default=False)],
    verdict: Annotated[str, typer.Argument(help="good or bad.", show_default=False)],
    note: Note = "",
    by: Annotated[str, typer.Option("--by", help="Who says so.", show_default=False)] = "",
    as_json: AsJson = False,
) -> int:
    """Say how a session went. It counts as its outcome from then on; a bad one starts a reflection on it."""
    if verdict not in ("good", "bad"):
        raise typer.BadParameter(f"{verdict!r} is neither good nor bad", param_hint="VERDICT")
    with opened(context) as rt:
        kept = give_feedback(rt, session, good=verdict == "good", note=note, by=by or os.environ.get("USER", ""))
    if as_json:
        emit_json({"feedback": kept})
    else:
        console().print(f"Kept as {kept}.", markup=False)
    return 0
