"""`instar up`, `down`, `prefect`: what runs in the background for a home."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from instar.adapters.cli.options import AsJson, project_folder, settings_of
from instar.adapters.cli.output import console, emit_json, safe
from instar.core.runtime import prepare_home
from instar.core.settings import Settings
from instar.flows.auth import drop_secret, make_secret, read_secret, secret_file
from instar.flows.errors import FlowsError
from instar.flows.rest import Rest
from instar.flows.review_runs import Tended, tend
from instar.flows.server import Server, ServerInfo, run_prefect
from instar.flows.staying import stay
from instar.flows.vectors import VectorsOwner, VectorsStatus, needed
from instar.flows.worker import Worker, WorkerRecord

ANY = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(up)
    app.command()(down)
    app.command(context_settings=ANY)(prefect)


def up(
    context: typer.Context,
    port: Annotated[int | None, typer.Option("--port", help="A free one is found by default.")] = None,
    auth: Annotated[
        bool | None, typer.Option("--auth/--no-auth", help="Let the server ask for a password; kept until changed.")
    ] = None,
    stay_here: Annotated[
        bool, typer.Option("--stay", help="Do not return: repair what ends, and end all with this command.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Start the Prefect server of this home, the worker that runs its flows, and the owner of its vectors.

    What runs already is left alone.

    Run it again after a change of settings, or when `instar status` says that something ended: it repairs.
    """
    settings = settings_of(context)
    prepare_home(settings)
    if auth is not None and auth != bool(read_secret(settings.home)):
        Worker(settings.home).stop()  # with the old password, or without one, nothing of it would work any more
        Server(settings.home).stop()
        _ = make_secret(settings.home) if auth else drop_secret(settings.home)
    info = Server(settings.home).start(port=port)
    worker = Worker(settings.home).start(info, settings, project=project_folder())
    tended = tend(settings, Rest(info.address, read_secret(settings.home)))
    try:
        vectors = _vectors(settings)
    except FlowsError as error:  # nights and reviews do without it
        vectors = None
        console(error=True).print(safe(error), markup=False, soft_wrap=True)
    _show(info, worker, vectors, as_json=as_json)
    if not as_json:
        _told(settings.home, tended)
    if not stay_here:
        return 0

    def repair() -> None:
        served = Server(settings.home).start(port=port)
        Worker(settings.home).start(served, settings, project=project_folder())
        _vectors(settings)

    def end() -> None:
        Worker(settings.home).stop()
        VectorsOwner(settings.home).stop()
        Server(settings.home).stop()

    return stay(repair, end, lambda said: console(error=True).print(safe(said), markup=False, soft_wrap=True))


def down(context: typer.Context, as_json: AsJson = False) -> int:
    """Stop the worker with every run it started, then the rest; what is unfinished is continued later."""
    home = settings_of(context).home
    worker = Worker(home).stop()
    vectors = VectorsOwner(home).stop()
    stopped = Server(home).stop()
    if as_json:
        emit_json({"stopped": stopped, "worker": worker, "vectors": vectors})
    else:
        console().print("Stopped." if stopped or worker or vectors else "Nothing was running.")
    return 0


def prefect(context: typer.Context) -> int:
    """Run a `prefect` command against the server of this home, for example `instar prefect flow-run ls`."""
    return run_prefect(settings_of(context).home, context.args)


def _told(home: Path, tended: Tended) -> None:
    out = console()
    if tended.opened or tended.continued:
        out.print(f"Reviews that ask now: {', '.join([*tended.opened, *tended.continued])}", markup=False)
    if read_secret(home):
        out.print(
            f"The UI asks for a password, which is the line in {secret_file(home)}", markup=False, soft_wrap=True
        )


def _vectors(settings: Settings) -> VectorsStatus | None:
    """The owner of the vectors, started where it is needed; ended where it is not needed any more."""
    owner = VectorsOwner(settings.home)
    if needed(settings):
        return owner.start()
    owner.stop()
    return None


def _show(info: ServerInfo, worker: WorkerRecord, vectors: VectorsStatus | None, *, as_json: bool) -> None:
    if as_json:
        told = {"server": info.address, "pid": info.pid, "worker": worker.pid, "serves": worker.served}
        emit_json(told | {"vectors": None if vectors is None else vectors.pid})
        return
    out = console()
    out.print(f"{info.address}   (pid {info.pid}; `instar down` stops it)", markup=False)
    out.print(f"The worker serves {', '.join(worker.served)} (pid {worker.pid})", markup=False)
    if vectors is not None:
        waits = "; it waits for who has the vectors now" if vectors.state == "waits" else ""
        out.print(f"The vectors of `recall` have one owner (pid {vectors.pid}){waits}", markup=False)
