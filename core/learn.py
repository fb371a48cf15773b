"""Distil, reflect, specify: from evidence to a requirement."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pydantic import BaseModel, ConfigDict, JsonValue

from instar.core import records
from instar.core.errors import NotEvaluated, NotFound
from instar.core.events import FEEDBACK
from instar.core.hosts import host_skills
from instar.core.progress import report
from instar.core.recalled import without_recalled
from instar.core.runtime import Runtime
from instar.engine.documents import Catalogue, CatalogueEntry, Memory, Prd, Proposal, Reflection, Window
from instar.engine.errors import Deferred, EngineError
from instar.engine.protocol import distilled
from instar.engine.session import Origin, Outcome, OutcomeStatus, Session, ToolSchema
from instar.memstore import Page, PageDraft, PageType, Provenance, Rejected
from instar.prompts import render
from instar.skills.document import description_of
from instar.skills.errors import SkillChanged, SkillQuarantined
from instar.skills.package import SKILL_PY, parse_manifest

MAX_REASONS = 5
"""Reasons for leaving sessions for later that a report names."""


CHUNK = 100
"""Sessions whose steps are read at once."""


class DistillReport(BaseModel):
    """What distilling added."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sessions: int = 0
    memories: int = 0
    kinds: dict[str, int] = {}
    left_for_later: int = 0
    """Sessions that a model could not be asked about: the budget is spent, or it gave nothing of use."""
    reasons: dict[str, int] = {}


def distill(rt: Runtime, scope: str = "", *, only: Collection[str] | None = None) -> DistillReport:
    """Write the memories of every session that has none yet, or has grown since; or `only` of these sessions.

    Raises:
        MemstoreError: the store cannot be read or written; whole sessions before that point are kept.
    """
    scope = scope or rt.settings.scope
    done = {str(page.content["session"]): page for page in _distillations(rt, scope, only)}
    said = last_feedback(rt, scope)
    waiting = [
        page
        for page in _sessions(rt, scope, only)
        if page.id not in done or done[page.id].content["fingerprint"] != _state(page, said)
    ]
    kinds: Counter[str] = Counter()
    later: Counter[str] = Counter()
    toolsets: dict[str, tuple[ToolSchema, ...]] = {}
    pages = {page.id: page for page in waiting}
    sessions = (_read(rt, page, toolsets, said) for page in waiting)
    for number, (session, told) in enumerate(distilled(rt.engine, sessions), start=1):
        if isinstance(told, EngineError):
            later[str(told)] += 1
            if isinstance(told, Deferred) and told.stops:
                later[str(told)] += len(waiting) - number
                break
            continue
        page = pages[session.page_id]
        kinds.update(memory.kind.value for memory in told)
        _keep(rt, page, told, done.get(page.id), _state(page, said))
        if number % 20 == 0 or number == len(waiting):
            report("distill", done=number, total=len(waiting), note=f"{kinds.total()} memories")
    if later:
        why = max(later, key=lambda reason: later[reason])
        report("distill", note=f"{later.total()} sessions are left for next time: {why}")
    return DistillReport(
        sessions=len(waiting) - later.total(),
        memories=kinds.total(),
        kinds=dict(sorted(kinds.items())),
        left_for_later=later.total(),
        reasons=dict(later.most_common(MAX_REASONS)),
    )


def _keep(rt: Runtime, page: Page, memories: list[Memory], before: Page | None, state: str) -> None:
    """Store what a session taught, once, also when another process does the same at this moment."""
    content: dict[str, JsonValue] = {
        "session": page.id,
        "fingerprint": state,
        "memories": [memory.id for memory in memories],
    }
    try:
        with rt.store.writeback(rt.principal, scope=page.scope) as batch:
            for memory in memories:
                batch.append(
                    records.document_draft(
                        memory,
                        records.MEMORY,
                        text=memory.statement,
                        parent=page.id,
                        session=page.id,
                        created_at=page.created_at,
                    )
                )
            if before is None:
                batch.append(_distillation(page, content))
            else:
                batch.replace(before.id, content=content, expect=before.version)
    except Rejected:
        now = rt.store.get(rt.principal, f"{records.DISTILLED}-{page.id}")
        if now is None or now.content["fingerprint"] != content["fingerprint"]:
            raise


def reflect(rt: Runtime, scope: str = "") -> Reflection:
    """Reflect on all sessions of a scope, and keep the report and its proposals as pages.

    Raises:
        MemstoreError: the store cannot be read or written.
    """
    scope = scope or rt.settings.scope
    report("reflect", note="reading sessions")
    reflection = rt.engine.reflect(window(rt, scope), catalogue(rt))
    drafts = reflection_drafts(rt, reflection)
    with rt.store.writeback(rt.principal, scope=rt.settings.scope) as batch:
        for draft in drafts:
            batch.append(draft)
    report("reflect", done=1, total=1, note=f"{len(reflection.proposals)} proposals")
    return reflection


def reflection_drafts(rt: Runtime, reflection: Reflection) -> list[PageDraft]:
    """The pages of a reflection and its proposals that are not stored yet."""
    text = render("reflection.md.j2", reflection=reflection)
    drafts = [records.document_draft(reflection, records.REFLECTION, text=text)]
    drafts += [
        records.document_draft(proposal, records.PROPOSAL, text=proposal.summary, parent=reflection.id)
        for proposal in reflection.proposals
    ]
    return _unknown(rt, drafts)


def specify(rt: Runtime, proposal_id: str) -> Prd:
    """Write the requirement of a stored proposal.

    Raises:
        NotFound: there is no such proposal.
        NotEvaluated: the engine cannot write a requirement for it.
    """
    page = rt.store.get(rt.principal, proposal_id)
    if page is None or page.kind != records.PROPOSAL:
        raise NotFound(f"No proposal {proposal_id!r}", "`instar pages list --kind proposal` shows what there is")
    proposal = records.document(page, Proposal)
    report("specify", note=proposal.skill)
    try:
        prd = rt.engine.specify(proposal, window(rt, rt.settings.scope, project=proposal.project))
    except EngineError as error:
        raise NotEvaluated(f"No requirement for {proposal.skill}: {error}", "It was not judged") from error
    made = records.document_draft(prd, records.PRD, text=render("prd.md.j2", prd=prd), parent=proposal_id)
    with rt.store.writeback(rt.principal, scope=rt.settings.scope) as batch:
        for draft in _unknown(rt, [made]):
            batch.append(draft)
    return prd


def _unknown(rt: Runtime, drafts: Sequence[PageDraft]) -> list[PageDraft]:
    """Those whose document is not stored yet: equal ids are equal documents, however an older template put them."""
    return [draft for draft in drafts if rt.store.get(rt.principal, draft.id or "") is None]


def window(rt: Runtime, scope: str, *, project: str = "", only: Collection[str] | None = None) -> Window:
    """The sessions of a scope that may be mined, with their memories; the rest counted by reason.

    No more than the newest of them, where the settings limit the window; or `only` these, whoever started them.
    """
    said = last_feedback(rt, scope)
    most, taken = rt.settings.window_sessions, 0
    wanted: list[Page] = []
    memories: list[Memory] = []
    left_out: Counter[str] = Counter()
    for page in _sessions(rt, scope, only):
        origin = Origin(str(page.content["origin"]))
        if origin is Origin.HEADLESS and not rt.settings.include_headless and only is None:
            left_out["headless"] += 1
        elif origin is Origin.SUBAGENT and not rt.settings.include_subagents and only is None:
            left_out["subagent"] += 1
        elif taken >= most:
            left_out["older than the window"] += 1
        else:
            taken += 1
            if not project or page.content["project"] == project:
                wanted.append(page)
    wanted.reverse()
    sessions = list(_read_all(rt, wanted, said))
    mined = {session.page_id for session in sessions}
    for page in _current_memories(rt, scope, only):
        memory = records.document(page, Memory)
        if memory.session in mined:
            memories.append(memory)
    return Window(
        scope=scope, sessions=sessions, memories=memories, left_out=dict(left_out), decisions=list(_decisions(rt))
    )


def _decisions(rt: Runtime) -> Iterator[str]:
    """What reviewers decided, one line each, the oldest first: the name, the version, and why."""
    for page in rt.store.find(rt.principal, scope=rt.settings.scope, kind=records.DECISION):
        review = rt.store.get(rt.principal, str(page.content["review"]))
        if review is not None:
            why = " ".join(str(page.content.get("comment") or "").split())[:200]
            what = f"{page.content.get('kind')} {review.content.get('skill')} {review.content.get('version')}"
            yield f"{what}: {why}" if why else what


def catalogue(rt: Runtime) -> Catalogue:
    """The published skills, each with the plan it was written from, and those installed in the agents' hosts.

    A skill whose files changed keeps its place, so that nothing takes its name; it has no tools and no description.
    A retired one keeps its place too, as one that is not ours to change: what was taken out is not proposed again.
    """
    entries = []
    retired = {entry.record.name for entry in rt.registry.retired()}
    for entry in (*rt.registry.list(), *rt.registry.retired()):
        record = entry.record
        try:
            package = rt.registry.load(record.name, approved_digest=record.digest)
        except (SkillChanged, SkillQuarantined):
            package = None
        manifest = None if package is None else parse_manifest(package)
        page = rt.store.get(rt.principal, str(_prd_of(rt, record.approval)))
        entries.append(
            CatalogueEntry(
                name=record.name,
                version=record.version,
                description="" if package is None else description_of(package.text("SKILL.md")),
                tools=() if manifest is None else tuple(tool.name for tool in manifest.tools),
                lineage=record.lineage,
                own=record.name not in retired,
                plan=None if page is None else records.document(page, Prd).plan,
                code="" if package is None or SKILL_PY not in package else package.text(SKILL_PY),
            )
        )
    ours = {entry.name for entry in entries}
    return Catalogue((*entries, *host_skills(rt.settings.host_skills, ours)))


def _prd_of(rt: Runtime, decision_id: str) -> str:
    """The requirement of the review that a decision answered; empty when the store does not know it."""
    decision = rt.store.get(rt.principal, decision_id)
    review = None if decision is None else rt.store.get(rt.principal, str(decision.content["review"]))
    return "" if review is None else str(review.content["prd"])


def _sessions(rt: Runtime, scope: str, only: Collection[str] | None) -> Iterator[Page]:
    """The session pages of a scope, or only these; the newest first."""
    if only is None:
        return rt.store.find(rt.principal, scope=scope, kind=records.SESSION, newest_first=True)
    found = rt.store.get_many(rt.principal, only).values()
    return iter(sorted(found, key=lambda page: page.seq, reverse=True))


def _distillations(rt: Runtime, scope: str, only: Collection[str] | None) -> Iterator[Page]:
    if only is None:
        return rt.store.find(rt.principal, scope=scope, kind=records.DISTILLED)
    return iter(rt.store.get_many(rt.principal, [f"{records.DISTILLED}-{page_id}" for page_id in only]).values())


def _current_memories(rt: Runtime, scope: str, only: Collection[str] | None) -> Iterator[Page]:
    """Memories of the latest distillation of each session; those of a shorter past are superseded."""
    current: set[str] = set()
    for page in _distillations(rt, scope, only):
        listed = page.content["memories"]
        current.update(str(item) for item in (listed if isinstance(listed, list) else []))
    if only is not None:
        yield from rt.store.get_many(rt.principal, current).values()
        return
    for page in rt.store.find(rt.principal, scope=scope, kind=records.MEMORY):
        if page.id in current:
            yield page


def last_feedback(rt: Runtime, scope: str) -> dict[str, Page]:
    """The last word that a person said on each session."""
    pages = rt.store.find(rt.principal, scope=scope, kind=FEEDBACK)
    return {str(page.content["session"]): page for page in pages}


def _state(page: Page, said: Mapping[str, Page]) -> str:
    """What a session's memories rest on: its steps, and a person's word on it."""
    word = said.get(page.id)
    return str(page.content["fingerprint"]) + ("" if word is None else f"+{word.id}")


def _read_all(rt: Runtime, pages: Sequence[Page], said: Mapping[str, Page]) -> Iterator[Session]:
    """The sessions of these pages, in their order; the steps of many are looked up at once."""
    toolsets: dict[str, tuple[ToolSchema, ...]] = {}
    for begin in range(0, len(pages), CHUNK):
        chunk = pages[begin : begin + CHUNK]
        ids = [f"{page.id}.{index:05d}" for page in chunk for index in range(int(str(page.content["steps"])))]
        steps: dict[str, list[Page]] = defaultdict(list)
        for step in rt.store.get_many(rt.principal, ids).values():
            if not step.hidden and step.session is not None:
                steps[step.session].append(step)
        for page in chunk:
            yield _session(rt, page, steps[page.id], toolsets, said)


def _read(rt: Runtime, page: Page, toolsets: dict[str, tuple[ToolSchema, ...]], said: Mapping[str, Page]) -> Session:
    steps = rt.store.find(rt.principal, scope=page.scope, kind=records.STEP, session=page.id)
    return _session(rt, page, steps, toolsets, said)


def _session(
    rt: Runtime,
    page: Page,
    steps: Iterable[Page],
    toolsets: dict[str, tuple[ToolSchema, ...]],
    said: Mapping[str, Page],
) -> Session:
    toolset = str(page.content["toolset"])
    if toolset not in toolsets:
        tools = rt.store.get(rt.principal, toolset) if toolset else None
        toolsets[toolset] = () if tools is None else records.read_tools(tools)
    session = without_recalled(records.read_session(page, steps, toolsets[toolset]))
    word = said.get(page.id)
    if word is None:
        return session
    status = OutcomeStatus.SUCCESS if word.content["good"] else OutcomeStatus.FAILURE
    return replace(session, outcome=Outcome(status, "feedback"))


def _distillation(page: Page, content: dict[str, JsonValue]) -> PageDraft:
    return PageDraft(
        id=f"{records.DISTILLED}-{page.id}",
        kind=records.DISTILLED,
        type=PageType.EVIDENCE,
        content=content,
        provenance=Provenance(source="engine:distill", references=(page.id,)),
        parent=page.id,
        session=page.id,
    )
