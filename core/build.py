"""Build: a requirement becomes a draft, the gates judge it, and a draft that passed waits for a person."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue

from instar.core import records
from instar.core.errors import NotEvaluated, NotFound
from instar.core.learn import catalogue
from instar.core.models import libraries_of
from instar.core.opening import DraftReview, open_draft
from instar.core.progress import report as progress
from instar.core.review_pages import draft_bytes
from instar.core.runtime import Runtime
from instar.engine.documents import Draft, Prd
from instar.engine.errors import EngineError
from instar.memstore import PageDraft, PageType, Provenance, State
from instar.prompts import render
from instar.sandbox.errors import DependencyMissing, DependencyUnusable
from instar.sandbox.gates import run_gates
from instar.sandbox.report import GateReport, GateResult, Verdict
from instar.skills.cases import Case
from instar.skills.errors import NotPublished
from instar.skills.manifest import Manifest
from instar.skills.package import MANIFEST, cases_of, digest

MAX_REPAIRS = 3


class Built(BaseModel):
    """One draft and what became of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    skill: str
    version: str
    digest: str
    draft: str
    gates: str
    """The page of the gate report."""
    verdict: Verdict
    report: GateReport
    review: str = ""
    """The review that waits for a person, or was already decided; empty unless every gate passed."""
    decided: str = ""
    """The decision about these bytes, where one was taken before: "reject by ada"."""


def build(rt: Runtime, prd_id: str, *, revises: str = "") -> Built:
    """Write a draft for a requirement, run every gate, and open a review when all passed.

    The same requirement gives the same bytes, and the same bytes keep their report and review: building twice changes
    nothing. A report that was incomplete is made anew. `revises` names the review that the draft answers.

    Raises:
        NotFound: there is no such requirement.
        PartMissing: there is no sandbox; nothing was judged.
        NotEvaluated: the engine cannot write this draft, or a wheel that it needs is not there.
    """
    page = rt.store.get(rt.principal, prd_id)
    if page is None or page.kind != records.PRD:
        raise NotFound(f"No requirement {prd_id!r}", "`instar pages list --kind prd` shows what there is")
    rt.sandbox.probe()
    prd = records.document(page, Prd)
    progress("write", note=prd.skill)
    try:
        draft = rt.engine.write(prd, catalogue(rt))
    except EngineError as error:
        raise NotEvaluated(f"No draft for {prd.skill}: {error}", "It was not judged") from error
    return judge_draft(rt, draft, prd, revises=revises)


def judge_draft(rt: Runtime, draft: Draft, prd: Prd, *, revises: str = "") -> Built:
    """Run every gate, let the engine repair what failed, and open a review when all passed.

    Raises:
        PartMissing: there is no sandbox; nothing was judged.
    """
    judged = best = _judge(rt, draft, parent=prd.id)
    for _ in range(MAX_REPAIRS):
        if judged.verdict is not Verdict.FAIL:
            break
        try:
            repaired = rt.engine.repair(draft, judged.report)
        except EngineError as error:
            progress("write", note=f"{prd.skill} was not repaired: {error}")
            break
        if repaired is None or repaired.files == draft.files:
            break
        draft = repaired
        judged = _judge(rt, draft, parent=prd.id)
        best = max(best, judged, key=_passed)
    judged = best
    if judged.verdict is Verdict.PASS:
        review, decided = _opened(rt, judged, prd, revises)
        return judged.model_copy(update={"review": review, "decided": decided})
    return judged


def _passed(built: Built) -> tuple[bool, int]:
    """How far a candidate got; of equals the earlier one is kept."""
    return built.verdict is Verdict.PASS, sum(one.verdict is Verdict.PASS for one in built.report.results)


def _judge(rt: Runtime, draft: Draft, *, parent: str) -> Built:
    fingerprint = digest(draft_bytes(draft))
    kept = _kept_report(rt, fingerprint)
    if kept is None:
        result = run_gates(
            draft_bytes(draft),
            sandbox=rt.sandbox,
            libraries=_libraries(rt, draft),
            folds=draft.folds,
            previous_cases=_previous_cases(rt, draft.skill),
            on_result=_told(draft.skill),
        )
        gates_id = _store(rt, draft, result, parent=parent)
    else:
        gates_id, result = kept
        _store_draft(rt, draft, parent=parent)
    return Built(
        skill=draft.skill,
        version=draft.version,
        digest=fingerprint,
        draft=draft.id,
        gates=gates_id,
        verdict=result.verdict,
        report=result,
    )


def _libraries(rt: Runtime, draft: Draft) -> tuple[Path, ...]:
    try:
        return libraries_of(rt.settings, Manifest.model_validate_json(draft.files[MANIFEST]))
    except (DependencyMissing, DependencyUnusable) as error:
        raise NotEvaluated(f"No gates for {draft.skill}: {error}", "It was not judged") from error


def _previous_cases(rt: Runtime, skill: str) -> list[Case]:
    """The cases of the version that this draft would replace; none for a first version.

    Raises:
        SkillsError: the published version is not what was approved, so nothing can be compared with it.
    """
    try:
        entry = rt.registry.get(skill)
    except NotPublished:
        return []
    package = rt.registry.load(skill, approved_digest=entry.record.digest)
    return list(cases_of(package).values())


def _told(skill: str) -> Callable[[GateResult], None]:
    """Report each gate as it ends."""

    def on_result(result: GateResult) -> None:
        progress("gates", note=f"{skill}: {result.gate} {result.verdict.value} in {result.seconds:.2f} s")

    return on_result


def _kept_report(rt: Runtime, fingerprint: str) -> tuple[str, GateReport] | None:
    """The report of exactly these bytes, unless it could not be completed then."""
    for page in rt.store.find(rt.principal, scope=rt.settings.scope, kind=records.GATES, tag=f"digest:{fingerprint}"):
        kept = GateReport.model_validate(page.content)
        if kept.verdict is not Verdict.INCOMPLETE:
            return page.id, kept
    return None


def _store_draft(rt: Runtime, draft: Draft, *, parent: str) -> None:
    """Keep a draft, unless the same bytes are kept: what was noted beside them then, by an older engine, stays."""
    if rt.store.get(rt.principal, draft.id) is None:
        with rt.store.writeback(rt.principal, scope=rt.settings.scope) as batch:
            batch.append(records.document_draft(draft, records.DRAFT, text=_listing(draft), parent=parent))


def _store(rt: Runtime, draft: Draft, result: GateReport, *, parent: str) -> str:
    content: dict[str, JsonValue] = result.model_dump(mode="json")
    unique = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
    page = PageDraft(
        id=f"gates-{result.digest.removeprefix('sha256:')[:12]}-{unique}",
        kind=records.GATES,
        type=PageType.EVIDENCE,
        content=content,
        text=render("gate_report.md.j2", report=result),
        state=State.SUCCESS if result.verdict is Verdict.PASS else State.ERROR,
        provenance=Provenance(source="gates", references=(draft.id,)),
        tags=(f"digest:{result.digest}", f"skill:{draft.skill}"),
        parent=draft.id,
    )
    _store_draft(rt, draft, parent=parent)
    with rt.store.writeback(rt.principal, scope=rt.settings.scope) as batch:
        return batch.append(page)


def _listing(draft: Draft) -> str:
    return f"{draft.skill} {draft.version}\n" + "\n".join(sorted(draft.files))


def _opened(rt: Runtime, built: Built, prd: Prd, revises: str) -> tuple[str, str]:
    waiting = DraftReview(
        skill=built.skill,
        version=built.version,
        digest=built.digest,
        draft=built.draft,
        prd=prd.id,
        gates=built.gates,
        risk=built.report.risk,
        title=prd.title,
        revises=revises,
    )
    return open_draft(rt, waiting)
