"""`instar pages`, `journal`, `faults`, `replay`, `lineage`: what the store holds and how it came there."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from datetime import datetime
from enum import Enum
from itertools import islice
from typing import Annotated

import typer

from instar.adapters.cli import render
from instar.adapters.cli.options import AsJson, Limit, opened
from instar.adapters.cli.output import console, emit_json, safe, table
from instar.core.errors import NotFound
from instar.core.lineage import lineage as trace
from instar.memstore import Difference, FaultKind, JournalStatus, Page, ReasonCode, decisions
from instar.memstore import replay as decide_again

pages_app = typer.Typer(no_args_is_help=True, help="List and read pages.")

HASH_LENGTH = 64
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*")

Since = Annotated[int, typer.Option("--since", min=0, help="Only entries after this number.")]
PageId = Annotated[str, typer.Argument(help="A page id.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(pages_app, name="pages")
    app.command()(journal)
    app.command()(faults)
    app.command()(replay)
    app.command()(lineage)


@pages_app.command("list")
def list_pages(
    context: typer.Context,
    kind: Annotated[str | None, typer.Option("--kind", help="For example session, memory, prd, review.")] = None,
    session: Annotated[str | None, typer.Option("--session", help="Only pages of this session.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Only pages with this tag.")] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> int:
    """Show pages, the newest first."""
    with opened(context) as rt:
        found = list(
            rt.store.find(
                rt.principal,
                scope=rt.settings.scope,
                kind=kind,
                session=session,
                tag=tag,
                limit=limit,
                newest_first=True,
            )
        )
        total = rt.store.count(rt.principal, scope=rt.settings.scope, kind=kind, session=session, tag=tag)
    if as_json:
        emit_json([_header(page) for page in found])
        return 0
    rows = [(p.id, p.kind, p.state.value, p.version, p.scope, p.forms.compressed[:60]) for p in found]
    out = console()
    out.print(table("", ("page", "kind", "state", "v", "scope", "begins"), rows, numeric=(3,)))
    out.print(f"{len(found)} of {total} pages")
    return 0


@pages_app.command("show")
def show_page(
    context: typer.Context,
    page_id: PageId,
    version: Annotated[int | None, typer.Option("--version", help="An earlier version.")] = None,
    as_json: AsJson = False,
) -> int:
    """Show one page with its provenance."""
    with opened(context) as rt:
        page = rt.store.get(rt.principal, page_id, version)
    if page is None:
        raise NotFound(f"No page {page_id!r}", "`instar pages list` shows what there is")
    if as_json:
        emit_json(_header(page) | {"content": dict(page.content), "text": page.text})
        return 0
    out = console()
    for name, value in _header(page).items():
        out.print(f"{name}: {safe(value)}", markup=False, soft_wrap=True)
    out.print()
    out.print(safe(page.full), markup=False, soft_wrap=True)
    return 0


@pages_app.command("history")
def history(context: typer.Context, page_id: PageId, as_json: AsJson = False) -> int:
    """Show every version of a page."""
    with opened(context) as rt:
        versions = list(rt.store.history(rt.principal, page_id))
    if not versions:
        raise NotFound(f"No page {page_id!r}", "`instar pages list` shows what there is")
    if as_json:
        emit_json([_header(page) for page in versions])
        return 0
    rows = [(p.version, p.updated_at.isoformat(timespec="seconds"), p.author, p.digest[:12]) for p in versions]
    console().print(table(page_id, ("version", "written", "by", "sha256"), rows, numeric=(0,)))
    return 0


def journal(
    context: typer.Context,
    since: Since = 0,
    page: Annotated[str | None, typer.Option("--page", help="Only entries about this page.")] = None,
    status: Annotated[JournalStatus | None, typer.Option("--status", help="Only entries that ended so.")] = None,
    code: Annotated[ReasonCode | None, typer.Option("--code", help="Only entries refused for this reason.")] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> int:
    """Show what was written or refused, and why; the oldest first."""
    with opened(context) as rt:
        found = (
            entry
            for entry in rt.store.journal(rt.principal, since=since)
            if page in (None, entry.page_id) and status in (None, entry.status) and code in (None, entry.code)
        )
        entries = list(islice(found, limit))
    _rows(entries, as_json=as_json, empty="No entries.")
    if len(entries) == limit and not as_json:
        console().print(f"There may be more: --since {entries[-1].seq} continues here.")
    return 0


def faults(
    context: typer.Context,
    since: Since = 0,
    session: Annotated[str | None, typer.Option("--session", help="Only faults of this session.")] = None,
    kind: Annotated[FaultKind | None, typer.Option("--kind", help="Only faults of this kind.")] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> int:
    """Show failures of the memory contract, the oldest first; there should be none."""
    with opened(context) as rt:
        every = rt.store.faults(rt.principal, scope=rt.settings.scope, session=session, since=since)
        found = list(islice((fault for fault in every if kind in (None, fault.kind)), limit))
    _rows(found, as_json=as_json, empty="No faults.")
    if len(found) == limit and not as_json:
        console().print(f"There may be more: --since {found[-1].seq} continues here.")
    return 0


def replay(
    context: typer.Context,
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="A run; without one the runs are listed.")] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> int:
    """Decide once more what a run decided about its contexts: byte by byte the same, or the first difference."""
    with opened(context) as rt:
        runs = rt.store.runs(rt.principal, limit=limit) if run is None else []
        lines = rt.store.trace(rt.principal, run) if run is not None else []
    if run is None:
        _rows(runs, as_json=as_json, empty="No runs: a harness records one for each session.")
        return 0
    if not lines:
        raise NotFound(f"No run {run!r}", "`instar replay` lists the runs")
    difference = decide_again(lines)
    made = decisions(lines)
    if as_json:
        emit_json({"run": run, "decisions": made, "difference": difference and dataclasses.asdict(difference)})
    elif difference is None:
        console().print(f"{run}: {made} decisions, every one the same.", markup=False)
    else:
        _show_difference(run, difference)
    return 0 if difference is None else 1


def _show_difference(run: str, difference: Difference) -> None:
    out = console()
    cause = f" (recorded by policy {difference.policy})" if difference.policy is not None else ""
    out.print(f"{safe(run)}: line {difference.line} differs{cause}.", markup=False)
    for what, line in (("recorded", difference.recorded), ("replayed", difference.replayed)):
        out.print(f"{what}: {safe(line)}", markup=False, soft_wrap=True)


def lineage(
    context: typer.Context,
    skill: Annotated[str, typer.Argument(metavar="SKILL[:LINE]", help="A published skill, or one line of its code.")],
    as_json: AsJson = False,
) -> int:
    """Trace a skill, or a line of its code, to the requirement, the memories and the session steps behind it."""
    name, colon, number = skill.partition(":")
    if colon and not number.isdigit():
        raise NotFound(f"{skill!r} does not name a line", "For example `instar lineage user-with-orders:12`")
    with opened(context) as rt:
        traced = trace(rt, name, int(number) if colon else None)
    if as_json:
        emit_json(traced)
    else:
        render.lineage(console(), traced)
    return 0


def _header(page: Page) -> dict[str, object]:
    return {
        "id": page.id,
        "kind": page.kind,
        "type": page.type.value,
        "state": page.state.value,
        "scope": page.scope,
        "version": page.version,
        "source": page.provenance.source,
        "references": list(page.provenance.references),
        "parent": page.parent,
        "session": page.session,
        "tags": list(page.tags),
        "author": page.author,
        "created_at": page.created_at.isoformat(),
        "updated_at": page.updated_at.isoformat(),
        "sha256": page.digest,
        "tokens": dict(zip(("pointer", "structured", "compressed", "full"), page.forms.tokens, strict=True)),
    }


def _rows(entries: Sequence[object], *, as_json: bool, empty: str) -> None:
    """Print any list of frozen records: as JSON, or with its fields as columns."""
    plain = [_fields(entry) for entry in entries]
    if as_json:
        emit_json(list(plain))
        return
    if not plain:
        console().print(empty)
        return
    filled = [name for name in plain[0] if any(row.get(name) not in (None, "", []) for row in plain)]
    columns = sorted((name for name in filled if name != "batch"), key=lambda name: name != "seq")
    console().print(table("", columns, [[_brief(row.get(name, "")) for name in columns] for row in plain]))


def _brief(value: object) -> object:
    """A cell for people: the beginning of a hash, a time without fractions; --json has everything."""
    if isinstance(value, str) and len(value) == HASH_LENGTH and value.isalnum():
        return value[:12]
    if isinstance(value, str) and TIMESTAMP.fullmatch(value):
        return value[:19]
    return value


def _fields(entry: object) -> dict[str, object]:
    if not dataclasses.is_dataclass(entry) or isinstance(entry, type):
        raise TypeError(f"{type(entry).__name__} is not a record")
    return {field.name: _value(getattr(entry, field.name)) for field in dataclasses.fields(entry)}


def _value(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    return list(value) if isinstance(value, tuple) else value
