"""`instar recall`, `reindex`, `maintain`, `pages explain`, `profile`: find pages, see why, forget on purpose."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from instar.adapters.cli import render
from instar.adapters.cli.options import AsJson, opened
from instar.adapters.cli.output import console, emit_json, progress_shown, safe, table
from instar.core.errors import NotFound, SourceMissing
from instar.core.recall import explain as explain_page
from instar.core.recall import fetched_ahead, recall_of
from instar.core.recall import reindex as reindex_all
from instar.memstore import State
from instar.memstore.recall import Answer, Filters, Hit, Status
from instar.memstore.recall.context import Recalled
from instar.memstore.recall.documents import spoken
from instar.memstore.recall.layers import prime
from instar.memstore.recall.profile import Profile

_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_BEGINS = 200
CODES = {Status.HIT: 0, Status.DEGRADED: 0, Status.NO_MATCH: 1, Status.DENIED: 5, Status.BACKEND_ERROR: 4}


profile_app = typer.Typer(no_args_is_help=True, help="Read, correct and delete what is known of you.")


def register(app: typer.Typer, pages: typer.Typer) -> None:
    """Add the commands."""
    app.command()(recall)
    app.command()(reindex)
    app.command()(maintain)
    pages.command("explain")(explain)
    pages.command("ahead")(ahead)
    app.add_typer(profile_app, name="profile")


def recall(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="What to look for; a time or a speaker in it is understood.")],
    kind: Annotated[str | None, typer.Option("--kind", help="Only pages of this kind, for example memory.")] = None,
    tool: Annotated[str | None, typer.Option("--tool", help="Only calls of this tool.")] = None,
    state: Annotated[State | None, typer.Option("--state", help="Only pages in this state.")] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", help="Only pages with this tag; may be repeated.")] = None,
    session: Annotated[str | None, typer.Option("--session", help="Only pages of this session.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Only pages since then: 2026-03-01, or an age as 12h, 7d, 2w.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100, help="At most so many hits.")] = 10,
    budget: Annotated[
        int | None, typer.Option("--budget", min=1, help="Print one text of at most so many tokens instead.")
    ] = None,
    task: Annotated[
        bool, typer.Option("--task", help="Take the query for a task, and show what it should begin with.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Find pages by what they say, best first, in English, Chinese, Japanese or a mix.

    "the budget the user mentioned last week" looks for a budget, in what the user said, in that week. Every hit shows
    how old it is, what it rests on, and what contradicts it. `--task` shows what was learned about a task, and the
    recent steps that this points to.

    Exit code 1 means that nothing was found; 4 that nothing could be looked up. An answer that may be incomplete says
    `degraded` and why.
    """
    with opened(context) as rt:
        filters = Filters(
            kind=kind, tool=tool, state=state, tags=tuple(tag or ()), session=session, since=_since(since)
        )
        if task and filters != Filters():
            raise SourceMissing("--task looks at everything that was learned", "Leave the other conditions out")
        with recall_of(rt) as searching:
            if task:
                answer = prime(searching, rt.principal, query, scope=rt.settings.scope, limit=(limit + 1) // 2).answer
            else:
                answer = searching.search(rt.principal, query, scope=rt.settings.scope, filters=filters, limit=limit)
            text = None if budget is None else searching.context(answer, budget)
    if as_json:
        emit_json(_document(answer, text))
    else:
        _show(answer, text)
    return CODES[answer.status] if answer.hits or answer.status is not Status.DEGRADED else 1


def reindex(context: typer.Context, as_json: AsJson = False) -> int:
    """Build the index of `recall` anew from the store, when it was lost, damaged, or is far behind.

    Pages are never touched. While it runs, `recall` answers from what is there and says `degraded`.
    """
    with opened(context) as rt, progress_shown(quiet=as_json):
        state = reindex_all(rt)
    if as_json:
        emit_json(dataclasses.asdict(state))
    else:
        console().print(f"{state.pages} pages, {state.vectors} vectors by {safe(state.embedder)}")
        for reason in state.reasons:
            console().print(safe(reason), markup=False, soft_wrap=True)
    return 3 if state.reasons else 0


def maintain(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what is due by its time; change nothing.")] = False,
    as_json: AsJson = False,
) -> int:
    """Forget what is past its time, and put in order what is kept; every night does it too.

    Erases pages past their time, links what says the same or the contrary, puts a summary in the place of old live
    sessions (whose pages stay readable by id), and brings the index of `recall` up to date.

    Exit code 3 means that a part could not be done; the next run tries it again.
    """
    # Imported late: the index takes most of a second.
    from instar.core.maintain import maintain as maintained  # noqa: PLC0415
    from instar.core.maintain import preview  # noqa: PLC0415

    with opened(context) as rt, progress_shown(quiet=as_json):
        done = preview(rt) if dry_run else maintained(rt)
    if as_json:
        emit_json(done)
    else:
        render.maintenance(console(), done)
    return 3 if done.trouble else 0


def explain(
    context: typer.Context, page_id: Annotated[str, typer.Argument(help="A page id.")], as_json: AsJson = False
) -> int:
    """Show what a page counts for and why: state, evidence, age, what says the same, what contradicts it."""
    with opened(context) as rt:
        found = explain_page(rt, page_id)
    if as_json:
        emit_json(found)
        return 0
    out = console()
    out.print(f"importance {found.importance:.2f} of 1", markup=False)
    out.print(table("", ("because of", "counts"), [(k, f"{v:+.3f}") for k, v in found.parts.items()], numeric=(1,)))
    for link in found.links:
        out.print(safe(link), markup=False, soft_wrap=True)
    out.print("recall finds it" if found.indexed else "recall does not find it", markup=False)
    return 0


def ahead(context: typer.Context, as_json: AsJson = False) -> int:
    """Show how many pages agents were given before they asked, by each way of guessing, and how many were of use.

    A page was of use where the agent asked for it, or soon named something of it. A way that does not pay is given
    up, and tried again now and then. Pages for the task of a session always come.
    """
    with opened(context) as rt:
        counts = fetched_ahead(rt)
    if as_json:
        found = {
            scope: {way: {"fetched": fetched, "used": used} for way, (fetched, used) in ways.items()}
            for scope, ways in counts.items()
        }
        emit_json(found)
        return 0
    rows = [
        (scope, way, fetched, used, f"{used / fetched:.0%}" if fetched else "")
        for scope, ways in counts.items()
        for way, (fetched, used) in sorted(ways.items())
    ]
    titles = ("scope", "for", "fetched", "of use", "share")
    console().print(table("", titles, rows, numeric=(2, 3, 4)) if rows else "Nothing was fetched ahead yet.")
    return 0


@profile_app.command("list")
def profile_list(context: typer.Context, as_json: AsJson = False) -> int:
    """Show what is held for true of you, and what it rests on."""
    with opened(context) as rt:
        traits = Profile(rt.store, rt.principal, rt.settings.scope).traits()
    if as_json:
        emit_json([dataclasses.asdict(trait) | {"since": trait.since.isoformat()} for trait in traits])
        return 0
    rows = [(t.subject, t.value, t.since.date(), ", ".join(t.evidence) or f"stated by {t.stated_by}") for t in traits]
    console().print(
        table("", ("subject", "value", "since", "rests on"), rows) if rows else "Nothing is known of you."
    )
    return 0


@profile_app.command("set")
def profile_set(
    context: typer.Context,
    subject: Annotated[str, typer.Argument(help="For example: answer style.")],
    value: Annotated[str, typer.Argument(help="For example: short, without lists.")],
    as_json: AsJson = False,
) -> int:
    """State something about yourself, or correct it; the earlier value stays in the history of its page."""
    with opened(context) as rt:
        trait = Profile(rt.store, rt.principal, rt.settings.scope).state(subject, value)
    if as_json:
        emit_json(dataclasses.asdict(trait) | {"since": trait.since.isoformat()})
    else:
        console().print(f"{trait.subject}: {safe(trait.value)} (version {trait.version})", markup=False)
    return 0


@profile_app.command("delete")
def profile_delete(
    context: typer.Context, subject: Annotated[str, typer.Argument(help="As `instar profile list` shows it.")]
) -> int:
    """Erase something about yourself, in all versions, beyond recovery."""
    with opened(context) as rt:
        gone = Profile(rt.store, rt.principal, rt.settings.scope).delete(subject)
    if not gone:
        raise NotFound(f"Nothing is known about {subject!r}", "`instar profile list` shows what is")
    console().print("erased", markup=False)
    return 0


def _since(text: str | None) -> datetime | None:
    if text is None:
        return None
    if text[-1:] in _UNITS and text[:-1].isdecimal() and len(text) <= 6:
        return datetime.now(UTC) - int(text[:-1]) * _UNITS[text[-1]]
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise SourceMissing(f"--since: {text!r} is no time", "For example 2026-03-01, 12h, 7d or 2w") from None
    return given if given.tzinfo else given.astimezone()


def _show(answer: Answer, text: Recalled | None) -> None:
    out, err = console(), console(error=True)
    for line in (*answer.reasons, *(f"understood: {rule}" for rule in answer.rules)):
        err.print(safe(line), markup=False, soft_wrap=True)
    if text is not None:
        out.print(safe(text.text), markup=False, soft_wrap=True)
        return
    for number, hit in enumerate(answer.hits, start=1):
        page = hit.page
        out.print(f"{number}. {page.id}  {page.kind}  {_age(hit)}{_doubt(hit)}", markup=False, soft_wrap=True)
        out.print(f"   {safe(' '.join(spoken(page).split())[:_BEGINS])}", markup=False, soft_wrap=True)
    if not answer.hits:
        out.print(f"{answer.status}: nothing found", markup=False)


def _age(hit: Hit) -> str:
    days = hit.age.days
    return f"{days} days old" if days > 1 else "1 day old" if days == 1 else f"{hit.age.seconds // 3600} h old"


def _doubt(hit: Hit) -> str:
    said = [f"rests on {hit.support}"] if hit.support else []
    if hit.superseded_by:
        said.append(f"newer evidence says otherwise: {hit.superseded_by}")
    elif hit.contradictions:
        said.append(f"older evidence says otherwise: {', '.join(hit.contradictions)}")
    return "  " + "; ".join(said) if said else ""


def _document(answer: Answer, text: Recalled | None) -> dict[str, object]:
    filters = {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in dataclasses.asdict(answer.filters).items()
        if value not in (None, (), [])
    }
    found: dict[str, object] = {
        "status": answer.status.value,
        "text": answer.text,
        "filters": filters,
        "rules": list(answer.rules),
        "reasons": list(answer.reasons),
        "hits": [_hit(hit) for hit in answer.hits],
    }
    if text is not None:
        found["context"] = {"text": text.text, "tokens": text.tokens, "left_out": list(text.left_out)}
    return found


def _hit(hit: Hit) -> dict[str, object]:
    page = hit.page
    return {
        "id": page.id,
        "kind": page.kind,
        "state": page.state.value,
        "scope": page.scope,
        "session": page.session,
        "created_at": page.created_at.isoformat(),
        "score": round(hit.score, 6),
        "lexical_rank": hit.lexical_rank,
        "vector_rank": hit.vector_rank,
        "support": hit.support,
        "age_days": round(hit.age.total_seconds() / 86_400, 2),
        "contradictions": list(hit.contradictions),
        "superseded_by": hit.superseded_by,
        "duplicates": list(hit.duplicates),
        "before": hit.before.id if hit.before else None,
        "after": hit.after.id if hit.after else None,
        "text": page.forms.compressed,
    }
