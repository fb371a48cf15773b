"""Lineage: from a line of a skill back to the requirement, the memories and the session steps it rests on."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from instar.core import records
from instar.core.errors import NotFound
from instar.core.runtime import Runtime
from instar.engine.documents import Draft, LineOrigin, Memory, Prd
from instar.memstore import Page

CODE = "scripts/skill.py"


class StepSource(BaseModel):
    """A session step that something rests on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    page: str
    session: str
    source: str
    task: str
    step: str


class MemorySource(BaseModel):
    """A memory that cites one of those steps."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    page: str
    statement: str


class LineSource(BaseModel):
    """One range of lines with where it comes from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    first_line: int
    last_line: int
    code: str
    node: str
    steps: list[StepSource]
    """The first of the supporting steps; `evidence` counts all."""
    evidence: int


class Lineage(BaseModel):
    """Everything a published skill, or one line of it, was learned from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    skill: str
    version: str
    digest: str
    review: str
    decided_by: str
    draft: str
    prd: str
    proposal: str
    purpose: str
    lines: list[LineSource]
    memories: list[MemorySource]
    sessions: int
    """How many distinct sessions the shown lines rest on."""


def lineage(rt: Runtime, name: str, line: int | None = None, *, steps: int = 5) -> Lineage:
    """Trace a published skill, or one line of its code; at most `steps` session steps are shown for each range.

    Raises:
        NotFound: no such published skill, or the line is outside the code or rests on nothing (a blank line).
    """
    publication = _publication(rt, name)
    review_id = str(publication.parent)
    review = _page(rt, review_id)
    draft = records.document(_page(rt, str(review.content["draft"])), Draft)
    prd = records.document(_page(rt, draft.prd), Prd)
    lines, sessions = line_sources(rt, draft, line, steps=steps)
    return Lineage(
        skill=name,
        version=draft.version,
        digest=str(publication.content["digest"]),
        review=review_id,
        decided_by=str(publication.content["reviewer"]),
        draft=draft.id,
        prd=prd.id,
        proposal=prd.proposal,
        purpose=prd.purpose,
        lines=lines,
        memories=_memories(rt, prd, {page for origin in _origins(draft, line) for page in origin.evidence}),
        sessions=sessions,
    )


def line_sources(
    rt: Runtime, draft: Draft, line: int | None = None, *, steps: int = 5
) -> tuple[list[LineSource], int]:
    """The ranges of a draft's code, or the one that holds `line`, with their steps; and how many sessions they name.

    Raises:
        NotFound: the line is outside the code or rests on nothing.
    """
    code = draft.files[CODE].splitlines()
    origins = _origins(draft, line)
    cited = [page_id for origin in origins for page_id in origin.evidence]
    found = rt.store.get_many(rt.principal, list(dict.fromkeys(cited)))
    sessions = {str(page.session) for page in found.values()}
    headers = rt.store.get_many(rt.principal, sorted(sessions))
    sources = [
        LineSource(
            file=origin.file,
            first_line=origin.first_line,
            last_line=origin.last_line,
            code="\n".join(code[origin.first_line - 1 : origin.last_line]),
            node=origin.node,
            steps=[_step(found[page_id], headers) for page_id in origin.evidence[:steps] if page_id in found],
            evidence=len(origin.evidence),
        )
        for origin in origins
    ]
    return sources, len(sessions)


def _publication(rt: Runtime, name: str) -> Page:
    """The page by which the version in force, or else the newest, was published."""
    found = rt.store.find(
        rt.principal, scope=rt.settings.scope, kind=records.PUBLICATION, tag=f"skill:{name}", newest_first=True
    )
    publications = [page for page in found if page.content.get("action", "publish") == "publish"]
    if not publications:
        raise NotFound(f"No published skill {name!r}", "`instar skills list` shows what there is")
    standing = rt.registry.standing(name)
    wanted = standing.version if standing is not None else ""
    return next((page for page in publications if page.content["version"] == wanted), publications[0])


def _origins(draft: Draft, line: int | None) -> list[LineOrigin]:
    name, length = draft.skill, len(draft.files[CODE].splitlines())
    if line is None:
        return draft.origins
    if not 1 <= line <= length:
        raise NotFound(f"{name} has no line {line}", f"{CODE} has {length} lines")
    covering = [origin for origin in draft.origins if origin.first_line <= line <= origin.last_line]
    if not covering:
        raise NotFound(
            f"{name}:{line} rests on no session step (it is the same in every skill)",
            f"`instar lineage {name}` shows the lines that do",
        )
    return covering


def _page(rt: Runtime, page_id: str) -> Page:
    page = rt.store.get(rt.principal, page_id)
    if page is None:
        raise NotFound(f"Page {page_id} is not in the store", "`instar doctor` checks the store")
    return page


def _step(page: Page, headers: dict[str, Page]) -> StepSource:
    header = headers.get(str(page.session))
    return StepSource(
        page=page.id,
        session=str(page.session),
        source="" if header is None else str(header.content["source"]),
        task="" if header is None else str(header.content["task"]),
        step=page.forms.compressed[:160],
    )


def _memories(rt: Runtime, prd: Prd, cited: set[str]) -> list[MemorySource]:
    pages = rt.store.get_many(rt.principal, prd.memories)
    memories = [records.document(page, Memory) for page in pages.values()]
    return [
        MemorySource(page=memory.id, statement=memory.statement)
        for memory in memories
        if cited.intersection(memory.evidence)
    ]
