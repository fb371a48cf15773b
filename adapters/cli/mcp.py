"""`instar mcp`: memory and skills for agents, over the Model Context Protocol."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from instar.adapters.cli.options import AsJson, opened, settings_of
from instar.adapters.cli.output import console, emit_json
from instar.core.errors import PartMissing, SourceMissing
from instar.core.runtime import prepare_home

app = typer.Typer(help="Serve memory and skills to agents over the Model Context Protocol.")


@app.callback(invoke_without_command=True)
def serve(
    context: typer.Context,
    transport: Annotated[
        Literal["stdio", "http"], typer.Option("--transport", help="http needs tokens: `instar mcp token NAME`.")
    ] = "stdio",
    host: Annotated[str, typer.Option("--host", help="Where http listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535)] = 8321,
) -> int:
    """Serve on standard input and output, or on http://HOST:PORT/mcp.

    Over stdio you are the local user. Over http every client has a token of its own, and sees nothing but its scopes.
    """
    if context.invoked_subcommand is not None:
        return 0
    try:
        # An extra: who does not serve need not have it.
        from instar.adapters.mcp.principals import load_clients  # noqa: PLC0415
        from instar.adapters.mcp.server import InstarServer  # noqa: PLC0415
    except ImportError as error:
        raise PartMissing(f"the MCP library is not installed ({error.name})", "pip install 'instar[mcp]'") from error
    settings = settings_of(context)
    prepare_home(settings)
    if transport == "http" and not load_clients(settings):
        raise SourceMissing("no client may connect yet", "`instar mcp token NAME` makes a token for one")
    with opened(context) as rt:
        if transport == "stdio":
            InstarServer(rt).run("stdio")
        else:
            url = f"http://{host}:{port}"
            console(error=True).print(f"{url}/mcp   (Ctrl-C stops it)", markup=False)
            InstarServer(rt, url=url).run(
                "streamable-http", host=host, port=port, stateless_http=True, json_response=True
            )
    return 0


@app.command()
def token(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A name for the client.")],
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", help="What it may read and write; the first is where it writes (default ROOT/NAME)."),
    ] = None,
    run_skills: Annotated[
        bool, typer.Option("--run-skills", help="It may also run skills, with real tools.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Make a token for a client. It is shown once; only its hash is kept, in mcp.toml of the home."""
    from instar.adapters.mcp.principals import add_client  # noqa: PLC0415

    settings = settings_of(context)
    prepare_home(settings)
    scopes = scope or [f"{settings.scope}/{name}"]
    made = add_client(settings, name, scopes, run_skills=run_skills)
    if as_json:
        emit_json({"name": name, "scopes": scopes, "run_skills": run_skills, "token": made})
    else:
        console().print(made, markup=False, soft_wrap=True)
    return 0
