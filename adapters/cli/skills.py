"""`instar skills`: what is published, whether it is intact, and running it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from pydantic import JsonValue

from instar.adapters.cli.options import AsJson, opened
from instar.adapters.cli.output import console, emit_json, safe, table
from instar.core.errors import SourceMissing
from instar.core.skills import call_skill, export_skill, list_skills, load_skill, skill_history, verify_skills
from instar.core.standing import Change
from instar.core.standing import retire as take_out
from instar.core.standing import rollback as put_back
from instar.skills.registry import Status

app = typer.Typer(
    no_args_is_help=True, help="List, show, run, verify, export, roll back and retire published skills."
)

Name = Annotated[str, typer.Argument(help="A skill's name.")]
By = Annotated[str, typer.Option("--by", help="Who decides; recorded with the decision.")]
Comment = Annotated[str, typer.Option("--comment", help="Why; kept as evidence.")]
Version = Annotated[str | None, typer.Option("--version", help="A version; the one in force by default.")]


@app.command("list")
def list_command(context: typer.Context, as_json: AsJson = False) -> int:
    """Show every published skill and whether its bytes are still the approved ones."""
    with opened(context) as rt:
        rows = list_skills(rt)
    if as_json:
        emit_json(rows)
        return 0
    out = console()
    if not rows:
        out.print("No published skills. `instar review list` shows what waits for approval.")
        return 0
    columns = ("skill", "version", "status", "approved by", "description")
    out.print(table("", columns, [(r.name, r.version, r.status, r.approved_by, r.description) for r in rows]))
    return 0


@app.command()
def show(context: typer.Context, name: Name, version: Version = None, as_json: AsJson = False) -> int:
    """Show a skill's SKILL.md and its manifest."""
    with opened(context) as rt:
        package, manifest, entry = load_skill(rt, name, version)
    if as_json:
        emit_json(
            {
                "name": name,
                "version": manifest.version,
                "digest": entry.record.digest,
                "location": str(entry.path),
                "manifest": manifest,
                "files": {path: package.text(path) for path in package},
            }
        )
        return 0
    out = console()
    out.print(safe(package.text("SKILL.md")), markup=False)
    out.print(safe(package.text("scripts/skill.py")), markup=False)
    out.print(f"{safe(entry.path)}\n{entry.record.digest}", markup=False, soft_wrap=True)
    return 0


@app.command()
def run(
    context: typer.Context,
    name: Name,
    arg: Annotated[
        list[str] | None,
        typer.Option("--arg", help="KEY=VALUE; the value is JSON, or plain text where the input is text."),
    ] = None,
    arguments: Annotated[str | None, typer.Option("--arguments", help="All arguments as one JSON object.")] = None,
    tools: Annotated[
        Path | None, typer.Option("--tools", readable=False, help="tools.toml: how the real tools are reached.")
    ] = None,
    version: Version = None,
    as_json: AsJson = False,
) -> int:
    """Run a skill in the sandbox with its real tools. Prints what it returned as JSON.

    With --json the whole record of the call is printed: status, value, error, number of tool calls.
    """
    with opened(context, tools=tools) as rt:
        _, manifest, _ = load_skill(rt, name, version)
        given = _given(arg or [], arguments, manifest.input_schema)
        call = call_skill(rt, name, given, version=version)
    if as_json:
        emit_json(call)
    elif call.status == "returned":
        print(json.dumps(call.value, ensure_ascii=False, indent=2))  # noqa: T201 — standard output is the product
    else:
        console(error=True).print(f"{name}: {call.status}: {safe(call.error)}", markup=False, soft_wrap=True)
    return 0 if call.status == "returned" else 1


@app.command()
def verify(context: typer.Context, as_json: AsJson = False) -> int:
    """Check every byte of every published version. Exit code 1 when one changed."""
    with opened(context) as rt:
        found = verify_skills(rt)
    rows: list[dict[str, object]] = [
        {"name": v.name, "version": v.version, "status": v.status.value, "files": list(v.files)} for v in found
    ]
    if as_json:
        emit_json(list(rows))
    elif rows:
        shown = [(v.name, v.version, v.status.value, ", ".join(v.files)) for v in found]
        console().print(table("", ("skill", "version", "status", "changed files"), shown))
    else:
        console().print("No published skills.")
    return 0 if all(v.status is Status.INTACT for v in found) else 1


@app.command()
def rollback(
    context: typer.Context,
    name: Name,
    by: By,
    to: Annotated[str, typer.Option("--to", help="A version; the one before the present one by default.")] = "",
    comment: Comment = "",
    as_json: AsJson = False,
) -> int:
    """Put an earlier version of a skill in force, or bring a retired skill back. Nothing is deleted."""
    with opened(context) as rt:
        change = put_back(rt, name, by=by, to=to, comment=comment)
    return _changed(change, as_json=as_json)


@app.command()
def retire(context: typer.Context, name: Name, by: By, comment: Comment = "", as_json: AsJson = False) -> int:
    """Take a skill out of use: it is not listed, run or exported any more. `rollback` brings it back.

    Copies that were exported to an agent's host stay where they are.
    """
    with opened(context) as rt:
        change = take_out(rt, name, by=by, comment=comment)
    return _changed(change, as_json=as_json)


@app.command()
def history(context: typer.Context, name: Name, as_json: AsJson = False) -> int:
    """Show every version of a skill, which one is in force, and who rolled it back or retired it."""
    with opened(context) as rt:
        rows, changes = skill_history(rt, name)
    if as_json:
        emit_json({"versions": rows, "changes": changes})
        return 0
    out = console()
    shown = [(r.version, "yes" if r.in_force else "", r.status, r.approved_by, r.approved_at) for r in rows]
    out.print(table("", ("version", "in force", "status", "approved by", "approved"), shown))
    if changes:
        told = [(c.at, c.kind, c.before or "–", c.version or "–", c.by, c.comment) for c in changes]
        out.print(table("Changes", ("when", "what", "from", "to", "by", "why"), told))
    return 0


@app.command()
def export(
    context: typer.Context,
    name: Name,
    target: Annotated[Path, typer.Argument(help="A skills folder, for example .claude/skills or .agents/skills.")],
    as_json: AsJson = False,
) -> int:
    """Copy a skill to where an agent's host finds it. An edited copy there is never overwritten."""
    with opened(context) as rt:
        place = export_skill(rt, name, target)
    if as_json:
        emit_json({"name": name, "location": str(place)})
    else:
        console().print(f"{safe(place)}", markup=False, soft_wrap=True)
    return 0


def _changed(change: Change, *, as_json: bool) -> int:
    if as_json:
        emit_json(change)
    else:
        said = f"{change.version} is in force" if change.version else "retired"
        console().print(f"{safe(change.skill)}: {said} (was {change.before or 'retired'})", markup=False)
    return 0


def _given(pairs: list[str], whole: str | None, schema: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """The arguments as JSON values.

    Raises:
        SourceMissing: a pair has no `=`, or --arguments is not a JSON object.
    """
    given: dict[str, JsonValue] = {}
    if whole is not None:
        try:
            parsed = json.loads(whole)
        except (ValueError, RecursionError) as error:
            raise SourceMissing(
                f"--arguments is not JSON: {error}", 'For example --arguments \'{"id": "A1"}\''
            ) from None
        if not isinstance(parsed, dict):
            raise SourceMissing("--arguments must be a JSON object", 'For example --arguments \'{"id": "A1"}\'')
        given.update(parsed)
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise SourceMissing(f"--arg {pair!r} is not KEY=VALUE", "For example --arg user_id=mia_li_3668")
        given[name] = text if _takes_text(schema, name) else _json_or_text(text)
    return given


def _takes_text(schema: dict[str, JsonValue], name: str) -> bool:
    properties = schema.get("properties")
    entry = properties.get(name) if isinstance(properties, dict) else None
    return isinstance(entry, dict) and entry.get("type") == "string"


def _json_or_text(text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value
