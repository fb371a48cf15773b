"""A requirement becomes a package: SKILL.md, the program, its manifest, tests, cases, the PRD and evals."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from pydantic import JsonValue

from instar.engine.compiler.effects import effect_of
from instar.engine.compiler.emit import emit
from instar.engine.compiler.errors import Unspecifiable
from instar.engine.compiler.plans import axes_of, references
from instar.engine.compiler.propose import akin, shape_of
from instar.engine.compiler.upkeep import covers
from instar.engine.compiler.wording import listed, skill_name, spoken
from instar.engine.documents import AgentText, Catalogue, CatalogueEntry, Draft, Prd
from instar.engine.plan import Binding, FiringRule, FromConstant, FromParameter, Plan
from instar.prompts import render
from instar.sandbox.folds import Fold
from instar.skills.document import render_skill_md
from instar.skills.manifest import Firing, GrantedTool, Manifest
from instar.skills.package import CASES, PRD_MD, SKILL_MD, SKILL_PY, TEST_PY, canonical_json, digest, seal
from instar.skills.test_template import TEST_SKILL, direct_run_notice

FIRST_VERSION = "0.1.0"
EVALS = "evals/evals.json"


def write(prd: Prd, catalogue: Catalogue) -> Draft:
    """Write the package of a requirement, and the one of each hold-out. The same requirement gives the same bytes.

    Raises:
        Unspecifiable: the requirement carries no plan: this engine writes programs only.
        PlanError: the plan is malformed.
    """
    if prd.plan is None:
        raise Unspecifiable(prd.skill, "the requirement carries no plan; this engine writes programs from plans")
    before = _earlier(prd, prd.plan, catalogue)
    taken = {entry.name for entry in catalogue.entries}
    name = before.name if before else prd.skill if prd.skill not in taken else skill_name(prd.plan, taken)
    version = _next(before.version) if before else FIRST_VERSION
    lineage = before.lineage if before else prd.id
    files = package(prd, prd.plan, name=name, version=version, lineage=lineage)
    folds = [
        Fold(
            task=fold.task,
            files=package(prd, fold.plan, name=name, version=version, lineage=lineage) if fold.plan else {},
            cases=fold.cases,
        )
        for fold in prd.folds
    ]
    return Draft(
        id=f"draft-{hashlib.sha256(f'{prd.id} {digest(files)}'.encode()).hexdigest()[:16]}",
        prd=prd.id,
        skill=name,
        version=version,
        files=files,
        folds=folds,
        origins=emit(prd.plan, title=prd.title, file=SKILL_PY).origins,
        evidence=prd.evidence,
    )


def package(prd: Prd, plan: Plan, *, name: str, version: str, lineage: str) -> dict[str, str]:
    """The sealed files of one plan under a requirement."""
    emitted = emit(plan, title=prd.title, file=SKILL_PY)
    text = _for_agent(prd)
    files = {
        SKILL_MD: render_skill_md(
            name=name,
            description=text.purpose.split(". ")[0] + ".",
            when_to_use=text.when_to_use,
            when_not_to_use=text.when_not_to_use,
            input_schema=emitted.input_schema,
            output_schema=emitted.output_schema,
            steps_by_hand=steps_by_hand(plan),
            version=version,
        ),
        SKILL_PY: f"{emitted.source}\n\n{direct_run_notice(name)}",
        TEST_PY: TEST_SKILL,
        PRD_MD: render("prd.md.j2", prd=prd),
        EVALS: canonical_json(_evals(prd, name)),
    }
    for case in prd.acceptance:
        files[f"{CASES}{case.name}.json"] = canonical_json(case.model_dump(mode="json"))
    tools = _granted(prd, plan)
    manifest = Manifest(
        name=name,
        version=version,
        input_schema=emitted.input_schema,
        output_schema=emitted.output_schema,
        tools=tools,
        side_effects="writes" if any(tool.effect == "write" for tool in tools) else "none",
        confidence=prd.confidence,
        firing=_firing(plan.firing),
        lineage=lineage,
        files={},
    )
    return seal(files, manifest)


def _firing(rule: FiringRule | None) -> Firing | None:
    return None if rule is None else Firing.model_validate(rule.model_dump(exclude={"uses", "tasks"}))


def _for_agent(prd: Prd) -> AgentText:
    return prd.for_agent or AgentText(
        purpose=prd.purpose,
        when_to_use=prd.when_to_use,
        when_not_to_use=prd.when_not_to_use,
        tools={need.name: need.why for need in prd.tools},
    )


def _granted(prd: Prd, plan: Plan) -> list[GrantedTool]:
    """What the plan calls, as required; a hold-out may have been mined with a tool that the whole plan dropped."""
    needs = {need.name: need for need in prd.tools}
    reasons = _for_agent(prd).tools
    return [
        GrantedTool(
            name=tool,
            why=reasons[tool],
            effect=needs[tool].effect,
            parameters=needs[tool].parameters,
            reach=needs[tool].reach,
        )
        if tool in needs
        else GrantedTool(name=tool, why="called without the task that is held out", effect=effect_of(tool))
        for tool in dict.fromkeys(node.tool for node in plan.nodes)
    ]


def steps_by_hand(plan: Plan) -> list[str]:
    """The calls of a plan as sentences, for a host that cannot run it."""
    axes = axes_of(plan)
    steps: list[str] = []
    for node in plan.nodes:
        arguments = listed([f"{key} = {_source(binding)}" for key, binding in node.arguments.items()])
        when = (
            f"If {spoken(node.switch)} is asked for: "
            if node.switch
            else "If there is one: "
            if node.optional
            else ""
        )
        each = ", once for each item" if axes[node.name] else ""
        steps.append(
            f"{when}call {node.tool} with {arguments or 'no arguments'}{each}; keep the result as {node.name}."
        )
    return [f"{step[:1].upper()}{step[1:]}" for step in steps]


def _source(binding: Binding) -> str:
    said: list[str] = []
    for option in references(binding):
        if isinstance(option, FromConstant):
            said.append(f"always {option.value!r}")
        elif isinstance(option, FromParameter):
            said.append(f"each of {option.name}" if option.path else f"the input {option.name}")
        elif option.collect:
            said.append(f"one list of {_path(option.path)} of {option.node}")
        else:
            said.append(f"{_path(option.path)} of {option.node}" if option.path else option.node)
    return " or ".join(said)


def _path(path: Sequence[str | int]) -> str:
    words = {"*": "each item", "*keys": "each key", "*values": "each value"}
    return ".".join(words.get(str(step), str(step)) for step in path)


def _earlier(prd: Prd, plan: Plan, catalogue: Catalogue) -> CatalogueEntry | None:
    """The version that this requirement replaces: ours, of the same name, and doing much the same."""
    for entry in catalogue.entries:
        if entry.own and entry.name == prd.skill and (entry.lineage == prd.id or _akin(entry.plan, plan)):
            return entry
    return None


def _akin(before: Plan | None, plan: Plan) -> bool:
    return before is not None and (shape_of(before) == shape_of(plan) or akin(before, plan) or covers(plan, before))


def _next(version: str) -> str:
    major, minor, _ = version.split(".")
    return f"{major}.{int(minor) + 1}.0"


def _evals(prd: Prd, name: str) -> JsonValue:
    """Prompts that should lead an agent to the skill, in the shape of the Agent Skills evals."""
    evals: list[JsonValue] = []
    for number, case in enumerate(prd.acceptance[:3], start=1):
        inputs = listed([f"{spoken(key)} {value}" for key, value in case.arguments.items() if value is not None])
        evals.append(
            {
                "id": number,
                "prompt": f"{_for_agent(prd).when_to_use[0]}. The inputs: {inputs}.",
                "expected_output": f"The result of {name} for these inputs, without calling its tools one by one.",
                "files": [],
                "assertions": [f"{name} was used", "no tool of its manifest was called outside it"],
            }
        )
    return {"skill_name": name, "evals": evals}
