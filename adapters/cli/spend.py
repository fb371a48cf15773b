"""`instar spend`: what went to models, for what, and how much of what they said was of use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from pydantic import JsonValue
from rich.table import Table

from instar.adapters.cli.options import AsJson, Limit, settings_of
from instar.adapters.cli.output import console, emit_json, safe
from instar.core.models import LEDGER, ledger_of
from instar.engine.llm.ledger import Rejected

MILLION = 1_000_000


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(spend)


def spend(
    context: typer.Context,
    rejected: Annotated[
        bool, typer.Option("--rejected", help="List what models said that was not kept, and why.")
    ] = False,
    limit: Limit = 30,
    as_json: AsJson = False,
) -> int:
    """Show what was spent on models, by role, model and document, and what was rejected of their answers.

    Money is in the currency of the prices in `[models]` of instar.toml; without prices it is 0.
    """
    settings = settings_of(context)
    asked = (settings.home / LEDGER).exists()
    if rejected:
        return _rejected(ledger_of(settings).rejected(limit) if asked else [], as_json=as_json)
    spending = ledger_of(settings).spending() if asked else []
    verdicts = ledger_of(settings).verdicts() if asked else []
    if as_json:
        spent: list[JsonValue] = [
            {
                "role": row.role,
                "model": row.model,
                "document": row.document,
                "calls": row.calls,
                "input_tokens": row.input_tokens,
                "output_tokens": row.output_tokens,
                "money": row.micros / MILLION,
                "estimated_calls": row.estimated,
            }
            for row in spending
        ]
        told: list[JsonValue] = [
            {"model": row.model, "accepted": bool(row.accepted), "reason": row.reason, "count": row.count}
            for row in verdicts
        ]
        emit_json({"spent": spent, "statements": told})
        return 0
    out = console()
    if not spending:
        out.print("Nothing was spent: no model was asked from this home.")
        return 0
    table = Table("role", "model", "document", "calls", "tokens in", "tokens out", "money", box=None)
    for row in spending[:limit]:
        table.add_row(
            row.role,
            safe(row.model),
            safe(row.document),
            f"{row.calls:,}" + ("*" if row.estimated else ""),
            f"{row.input_tokens:,}",
            f"{row.output_tokens:,}",
            f"{row.micros / MILLION:.4f}",
        )
    out.print(table)
    calls = sum(row.calls for row in spending)
    tokens = sum(row.input_tokens + row.output_tokens for row in spending)
    money = sum(row.micros for row in spending) / MILLION
    out.print(
        f"In all {calls:,} calls, {tokens:,} tokens, {money:.4f}, {min(limit, len(spending))}/{len(spending)} rows."
    )
    if any(row.estimated for row in spending):
        out.print("* with calls that the server did not count: taken at an estimate.")
    for told_row in verdicts:
        what = "accepted" if told_row.accepted else f"rejected: {told_row.reason}"
        out.print(f"{told_row.model}: {told_row.count:,} statements {what}", markup=False)
    return 0


def _rejected(found: Sequence[Rejected], *, as_json: bool) -> int:
    if as_json:
        emit_json({"rejected": [asdict(one) for one in found]})
        return 0
    out = console()
    for one in found:
        out.print(f"{one.document} {one.role}: {one.reason}", markup=False)
        if one.statement:
            out.print(f"  {safe(one.statement[:300])}", markup=False)
    if not found:
        out.print("Nothing was rejected.")
    return 0
