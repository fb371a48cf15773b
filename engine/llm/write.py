"""From a requirement to a package with a model's program in it: design, then code; and repair from the gates' report.

The package around the program is ours: its text comes from the requirement, its grants from what was recorded, its
cases are recorded uses. The program alone is the model's, and the gates judge it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from instar.engine.compiler.emit import emit
from instar.engine.documents import AgentText, Catalogue, CatalogueEntry, Draft, LineOrigin, Prd
from instar.engine.llm.answers import NotTheShape
from instar.engine.llm.asker import Asker
from instar.engine.llm.copying import prose_in
from instar.engine.llm.errors import Unusable
from instar.engine.llm.grants import how_to_call, used
from instar.engine.llm.program import module_of, names_in
from instar.engine.llm.shapes import Coded, Designed
from instar.engine.llm.wording import Words, fit
from instar.prompts import render
from instar.sandbox.folds import Fold
from instar.sandbox.report import GateReport, Verdict
from instar.skills.cases import Case
from instar.skills.document import render_skill_md
from instar.skills.manifest import GrantedTool, Manifest
from instar.skills.package import CASES, MANIFEST, PRD_MD, SKILL_MD, SKILL_PY, TEST_PY, canonical_json, digest, seal
from instar.skills.test_template import TEST_SKILL

CODE, REPAIR, OPTIMISE, DESIGN = (
    "model_code.md.j2",
    "model_repair.md.j2",
    "model_optimise.md.j2",
    "model_design.md.j2",
)
FIRST_VERSION = "0.1.0"
CASE = 6_000
"""Characters of a case that are shown."""
FINDINGS = 12


@dataclass(frozen=True, slots=True)
class _Form:
    """What the module of a skill must look like."""

    title: str
    skill: str
    input_schema: dict[str, JsonValue]


def write(asker: Asker, prd: Prd, catalogue: Catalogue) -> Draft:
    """Design and code a requirement; an existing skill of ours is improved instead.

    Raises:
        Unusable: no program of the right form came back, or an improvement that changes nothing.
        ModelError: the model could not be asked.
    """
    before = next((entry for entry in catalogue.entries if entry.name == prd.skill), None)
    if before is not None and not before.own:
        raise Unusable("code", "the requirement", f"{prd.skill} exists in the agent's host")
    cases = _shown(prd.acceptance, asker.room("code", CODE))
    form = _Form(prd.title, prd.skill, prd.input_schema)
    steps: Sequence[str] = ()
    if before is not None and before.code:
        prompt = OPTIMISE
        seen = f"{prd.purpose}\n{prd.expected_benefit}\n" + "\n".join(prd.risks)
        answer = asker.ask("code", OPTIMISE, Coded, document=prd.id, code=before.code, findings=seen, cases=cases)
        code = _module(asker, prd.id, answer.code, form)
        if code == before.code:
            raise Unusable("code", asker.model("code").name, f"{prd.skill} came back unchanged, which is no result")
    else:
        prompt = CODE
        requirement = _requirement(prd)
        design = asker.ask("code", DESIGN, Designed, document=prd.id, requirement=requirement, cases=cases)
        steps = design.steps
        planned = "\n".join([*(f"- {step}" for step in steps), *(f"- edge: {case}" for case in design.edge_cases)])
        answer = asker.ask(
            "code",
            CODE,
            Coded,
            document=prd.id,
            requirement=requirement,
            design=planned,
            cases=cases,
            granted=how_to_call([need.name for need in prd.tools], prd.wheels),
            example="" if prd.plan is None else emit(prd.plan, title=prd.title).source,
        )
        code = _module(asker, prd.id, answer.code, form)
    files = _package(prd, code, steps, before)
    return _draft(prd.id, prd.skill, files, prd, asker.made_by("code", prompt))


def repair(asker: Asker, draft: Draft, report: GateReport) -> Draft | None:
    """A changed draft, or None when the model gives the same program back or none that can be used."""
    manifest = Manifest.model_validate_json(draft.files[MANIFEST])
    code = draft.files[SKILL_PY]
    cases = [Case.model_validate_json(text) for path, text in sorted(draft.files.items()) if path.startswith(CASES)]
    try:
        answer = asker.ask(
            "code",
            REPAIR,
            Coded,
            document=draft.prd,
            code=code,
            findings="\n".join(_findings(report)),
            cases=_shown(cases, asker.room("code", REPAIR)),
        )
        title = draft.skill.replace("-", " ")
        mended = _module(asker, draft.prd, answer.code, _Form(title, draft.skill, manifest.input_schema))
    except Unusable:
        return None
    if mended.splitlines()[1:] == code.splitlines()[1:]:
        return None
    files = seal({**draft.files, SKILL_PY: f"{code.splitlines()[0]}\n" + mended.partition("\n")[2]}, manifest)
    return draft.model_copy(
        update={
            "id": _draft_id(draft.prd, files),
            "files": files,
            "folds": [fold.model_copy(update={"files": files}) for fold in draft.folds],
            "origins": [_origin(files, draft.evidence)],
            "made_by": asker.made_by("code", REPAIR),
        }
    )


def _module(asker: Asker, document: str, code: str, form: _Form) -> str:
    try:
        return module_of(code, title=form.title, name=form.skill, input_schema=form.input_schema)
    except NotTheShape as problem:
        asker.note("code", document, reason=str(problem), statement=code)
        raise Unusable("code", asker.model("code").name, str(problem)) from None


def _package(prd: Prd, code: str, steps: Sequence[str], before: CatalogueEntry | None) -> dict[str, str]:
    text = prd.for_agent or AgentText(
        purpose=prd.purpose,
        when_to_use=prd.when_to_use,
        when_not_to_use=prd.when_not_to_use,
        tools={need.name: need.why for need in prd.tools},
    )
    version = _next(before.version) if before else FIRST_VERSION
    files = {
        SKILL_MD: render_skill_md(
            name=prd.skill,
            description=text.purpose.split(". ")[0].rstrip(".") + ".",
            when_to_use=text.when_to_use,
            when_not_to_use=text.when_not_to_use,
            input_schema=prd.input_schema,
            output_schema=prd.output_schema,
            steps_by_hand=_by_hand(prd, text, steps),
            version=version,
        ),
        SKILL_PY: code,
        TEST_PY: TEST_SKILL,
        PRD_MD: render("prd.md.j2", prd=prd),
    }
    for case in prd.acceptance:
        files[f"{CASES}{case.name}.json"] = canonical_json(case.model_dump(mode="json"))
    # What the program does not call is not granted, whatever the requirement says.
    mentioned = names_in(code)
    tools = [
        GrantedTool(
            name=need.name,
            why=text.tools.get(need.name, need.why),
            effect=need.effect,
            parameters=need.parameters,
            reach=need.reach,
        )
        for need in prd.tools
        if need.name in mentioned
    ]
    manifest = Manifest(
        name=prd.skill,
        version=version,
        input_schema=prd.input_schema,
        output_schema=prd.output_schema,
        tools=tools,
        side_effects="writes" if any(tool.effect == "write" for tool in tools) else "none",
        dependencies=used(prd.wheels, code),
        confidence=prd.confidence,
        lineage=before.lineage if before else prd.id,
        files={},
    )
    return seal(files, manifest)


def _by_hand(prd: Prd, text: AgentText, steps: Sequence[str]) -> list[str]:
    """The steps of the design as far as they are about the job; otherwise the tools with what they are for."""
    words = " ".join([text.purpose, *text.when_to_use, json.dumps(prd.input_schema), *(t.name for t in prd.tools)])
    cases = [*prd.acceptance, *(case for fold in prd.folds for case in fold.cases)]
    answers = (text for case in cases for call in case.calls for text in prose_in(call.result))
    known = Words.of([("requirement", words), ("again", words)], answers=answers)
    kept, _ = fit(steps, known, "en", most=12)
    return (
        kept or [f"Call {tool.name}: {text.tools.get(tool.name, tool.why)}." for tool in prd.tools] or [text.purpose]
    )


def _draft(prd: str, skill: str, files: dict[str, str], requirement: Prd, made_by: str) -> Draft:
    return Draft(
        id=_draft_id(prd, files),
        prd=prd,
        skill=skill,
        version=Manifest.model_validate_json(files[MANIFEST]).version,
        files=files,
        folds=[Fold(task=fold.task, files=files, cases=fold.cases) for fold in requirement.folds],
        origins=[_origin(files, requirement.evidence)],
        evidence=requirement.evidence,
        made_by=made_by,
    )


def _draft_id(prd: str, files: dict[str, str]) -> str:
    return f"draft-{hashlib.sha256(f'{prd} {digest(files)}'.encode()).hexdigest()[:16]}"


def _origin(files: dict[str, str], evidence: Sequence[str]) -> LineOrigin:
    """A model does not say which line it owes to which step: every line rests on all of the evidence."""
    lines = max(files[SKILL_PY].count("\n"), 1)
    return LineOrigin(file=SKILL_PY, first_line=1, last_line=lines, node="run", evidence=list(evidence))


def _requirement(prd: Prd) -> str:
    content = prd.model_dump(
        mode="json", include={"title", "purpose", "when_to_use", "input_schema", "output_schema", "tools"}
    )
    return json.dumps(content, ensure_ascii=False, indent=1)


def _shown(cases: Sequence[Case], room: int) -> str:
    """Cases as JSON, as many as fit; never fewer than one."""
    texts: list[str] = []
    for case in cases:
        text = json.dumps(case.model_dump(mode="json"), ensure_ascii=False)[:CASE]
        if texts and sum(map(len, texts)) + len(text) > 2 * room:
            break
        texts.append(text)
    return "\n".join(texts)


def _findings(report: GateReport) -> list[str]:
    """What the gates say, without a word about the cases that were set aside."""
    said: list[str] = []
    for result in report.results:
        if result.verdict is Verdict.PASS:
            continue
        said.append(f"{result.gate}: {result.verdict.value}: {result.summary}"[:300])
        open_to_all = [finding for finding in result.findings if not finding.file.startswith("hold-out")]
        said += [
            f"- {finding.file}:{finding.line} {finding.rule} {finding.message}"[:400]
            for finding in open_to_all[:FINDINGS]
        ]
    return said


def _next(version: str) -> str:
    major, minor, _ = version.split(".")
    return f"{major}.{int(minor) + 1}.0"
