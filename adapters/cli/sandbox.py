"""`instar sandbox`: what isolation there is, the image of the Docker back end, and the gates for any skill folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from instar.adapters.cli.options import AsJson, settings_of
from instar.adapters.cli.output import console, emit_json, safe
from instar.adapters.cli.render import gates
from instar.sandbox.backends import open_sandbox
from instar.sandbox.gates import run_gates
from instar.sandbox.gates.sarif import to_sarif
from instar.sandbox.report import Verdict
from instar.skills.package import read_package

app = typer.Typer(
    no_args_is_help=True, help="See what isolates drafts and skills, build the Docker image, judge a skill folder."
)
_EXIT = {Verdict.PASS: 0, Verdict.FAIL: 1, Verdict.INCOMPLETE: 3}


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
def check(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Argument(exists=True, file_okay=False, help="A skill package: the folder that holds SKILL.md.")
    ],
    sarif: Annotated[
        Path | None, typer.Option("--sarif", help="Also write the findings here, as SARIF 2.1.0 for editors and CI.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Judge a skill folder by every gate, in the sandbox. It is only read: nothing is stored, changed or approved.

    Exit code 0: passed. 1: rejected. 3: could not be evaluated, which is no rejection. Hold-outs and the version that
    a draft replaces are known only to `instar build`; here the gates judge what the folder holds.
    """
    told = console(error=True)
    report = run_gates(
        read_package(folder),
        sandbox=open_sandbox(settings_of(context).sandbox),
        on_result=lambda result: told.print(
            f"{result.gate}: {result.verdict} in {result.seconds:.1f} s", markup=False
        ),
    )
    if sarif is not None:
        sarif.write_text(json.dumps(to_sarif(report), indent=2) + "\n", encoding="utf-8")
    if as_json:
        emit_json(report)
    else:
        gates(console(), report)
        console().print(f"{report.verdict}, on {', '.join(report.isolation[:1])}", markup=False, soft_wrap=True)
    return _EXIT[report.verdict]


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
