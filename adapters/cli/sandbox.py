"""`instar sandbox`: what isolation there is, and the image of the Docker back end."""

from __future__ import annotations

from typing import Annotated

import typer

from instar.adapters.cli.options import AsJson, settings_of
from instar.adapters.cli.output import console, emit_json, safe
from instar.sandbox.backends import open_sandbox

app = typer.Typer(no_args_is_help=True, help="See what isolates drafts and skills, and build the Docker image.")


@app.command()
def probe(context: typer.Context, as_json: AsJson = False) -> int:
    """Try the isolation that INSTAR_SANDBOX names, and say what is in force. Exit code 3 when there is none."""
    isolation = open_sandbox(settings_of(context).sandbox).probe()
    if as_json:
        emit_json({"backend": isolation.backend, "properties": list(isolation.properties)})
    else:
        console().print(f"{isolation.backend}: {', '.join(isolation.properties)}", markup=False, soft_wrap=True)
    return 0


@app.command()
def build(
    base: Annotated[
        str, typer.Option("--base", help="An image with the Python that Instar runs on; local ones work offline.")
    ] = "python:3.11-slim",
    as_json: AsJson = False,
) -> int:
    """Build the image in which the Docker back end runs jobs. Only the base comes from outside."""
    # Docker's client is an extra: only this command needs it.
    from instar.sandbox.image import build as build_image  # noqa: PLC0415

    image = build_image(base)
    if as_json:
        emit_json({"image": image})
    else:
        console().print(safe(image), markup=False, soft_wrap=True)
    return 0
