"""From proposal to package: decided from one page, the same bytes each time, nothing recorded leaks."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from instar.engine.compiler.compiler import Compiler
from instar.engine.compiler.errors import Unspecifiable
from instar.engine.documents import Catalogue, CatalogueEntry, Draft, Prd, Window
from instar.engine.protocol import Engine
from instar.engine.session import Session
from instar.prompts import render
from instar.sandbox.report import GateReport
from instar.skills.package import Package, check, parse_manifest


@pytest.fixture
def prd(desks: list[Session]) -> Prd:
    window = Window("test", desks)
    compiler = Compiler()
    return compiler.specify(compiler.reflect(window, Catalogue()).proposals[0], window)


@pytest.fixture
def draft(prd: Prd) -> Draft:
    return Compiler().write(prd, Catalogue())


def test_the_compiler_is_an_engine() -> None:
    engine: Engine = Compiler()
    assert engine


def test_a_person_can_decide_from_the_page_alone(prd: Prd) -> None:
    page = render("prd.md.j2", prd=prd)
    headings = (
        "When to use it,When not to use it,Expected benefit,Inputs,Output,Tools it may call,Acceptance cases,Risks"
    )
    for heading in [*headings.split(","), "Open questions", "Lineage"]:
        assert f"## {heading}" in page
    assert "95 % interval" in prd.expected_benefit
    assert "12 sessions" in prd.expected_benefit
    assert [(tool.name, tool.effect) for tool in prd.tools] == [("get_customer", "read"), ("get_order", "read")]
    assert prd.proposal in page
    assert all(tool.why for tool in prd.tools)


def test_cases_are_diverse_and_pseudonymised(prd: Prd, desks: list[Session]) -> None:
    assert 3 <= len(prd.acceptance) <= 8
    assert len({len(case.calls) for case in prd.acceptance}) > 1
    shown = json.dumps([case.model_dump(mode="json") for case in prd.acceptance])
    recorded = {str(call.arguments.get("customer_id")) for session in desks for call, _ in session.exchanges()}
    recorded.discard("None")
    assert recorded
    assert not any(secret in shown for secret in recorded)
    assert "Nora" not in shown
    assert "@mail" not in shown


def test_hold_outs_stay_with_the_requirement_as_recorded(prd: Prd, draft: Draft) -> None:
    assert prd.folds
    kept = {json.dumps(case.arguments) for fold in prd.folds for case in fold.cases}
    packaged = "".join(draft.files.values())
    assert kept
    assert not any(json.loads(arguments)["customer_id"] in packaged for arguments in kept)


def test_the_same_requirement_gives_the_same_bytes(prd: Prd, draft: Draft) -> None:
    assert Compiler().write(prd, Catalogue()) == draft
    assert Compiler().write(Prd.model_validate_json(prd.model_dump_json()), Catalogue()).files == draft.files


def test_the_same_bytes_come_from_a_process_with_another_hash_seed(prd: Prd, draft: Draft, tmp_path: Path) -> None:
    (tmp_path / "prd.json").write_text(prd.model_dump_json())
    code = (
        "import sys; from pathlib import Path; from instar.engine.compiler.compiler import Compiler;"
        "from instar.engine.documents import Catalogue, Prd; from instar.skills.package import digest;"
        "print(digest(Compiler().write(Prd.model_validate_json(Path(sys.argv[1]).read_text()), Catalogue()).files))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "prd.json")],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == Package(draft.files).digest


def test_the_package_is_sealed_and_complete(draft: Draft, prd: Prd) -> None:
    manifest = check(Package(draft.files))
    assert (manifest.name, manifest.version, manifest.lineage) == ("customer-with-orders", "0.1.0", prd.id)
    assert manifest.side_effects == "none"
    assert {"SKILL.md", "scripts/skill.py", "tests/test_skill.py", "references/prd.md", "evals/evals.json"} <= set(
        draft.files
    )
    assert sum(path.startswith("tests/cases/") for path in draft.files) == len(prd.acceptance)


def test_the_packaged_tests_pass(draft: Draft, tmp_path: Path) -> None:
    for path, text in draft.files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            str(tmp_path),
            str(tmp_path / "tests"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_every_line_range_of_the_program_leads_to_a_node_and_its_evidence(draft: Draft, prd: Prd) -> None:
    lines = draft.files["scripts/skill.py"].splitlines()
    nodes = {node.name: node for node in prd.plan.nodes} if prd.plan else {}
    assert {origin.node for origin in draft.origins} == set(nodes)
    for origin in draft.origins:
        text = "\n".join(lines[origin.first_line - 1 : origin.last_line])
        assert nodes[origin.node].tool in text or origin.node in text
        assert set(origin.evidence) <= set(nodes[origin.node].evidence)


def test_folds_are_written_by_the_same_writer(draft: Draft, prd: Prd) -> None:
    assert [fold.task for fold in draft.folds] == [fold.task for fold in prd.folds]
    for fold in draft.folds:
        if fold.files:
            assert parse_manifest(Package(fold.files)).name == draft.skill
            assert fold.files["scripts/skill.py"].startswith('"""')


def test_a_new_version_keeps_name_and_lineage(prd: Prd, draft: Draft) -> None:
    existing = CatalogueEntry(draft.skill, "0.3.0", "", (), "prd-before", plan=prd.plan)
    newer = parse_manifest(Package(Compiler().write(prd, Catalogue((existing,))).files))
    assert (newer.name, newer.version, newer.lineage) == (draft.skill, "0.4.0", "prd-before")


def test_a_name_that_another_lineage_took_meanwhile_is_left_to_it(prd: Prd) -> None:
    foreign = CatalogueEntry(prd.skill, "1.0.0", "", ("send_mail",), "prd-foreign")
    other = Compiler().write(prd, Catalogue((foreign,)))
    assert other.skill != prd.skill
    assert parse_manifest(Package(other.files)).lineage == prd.id


def test_a_requirement_without_a_plan_is_refused(prd: Prd) -> None:
    with pytest.raises(Unspecifiable):
        Compiler().write(prd.model_copy(update={"plan": None}), Catalogue())


def test_the_compiler_repairs_nothing(draft: Draft) -> None:
    report = GateReport(
        skill=draft.skill, version=draft.version, digest="sha256:0", results=[], risk="low", isolation=[], tools={}
    )
    assert Compiler().repair(draft, report) is None


def test_the_program_does_what_the_sessions_did(draft: Draft, tmp_path: Path) -> None:
    path = tmp_path / "skill.py"
    path.write_text(draft.files["scripts/skill.py"])
    spec = importlib.util.spec_from_file_location("written_skill", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    class Tools:
        class Error(Exception):
            pass

        def call(self, name: str, arguments: dict[str, object]) -> object:
            if name == "get_customer":
                return {"customer_id": arguments["customer_id"], "orders": ["#W1", "#W2"]}
            return {"order_id": arguments["order_id"]}

    returned = module.run(Tools(), customer_id="C9")
    assert [order["order_id"] for order in returned["order"]] == ["#W1", "#W2"]


def test_a_requirement_in_chinese_leads_to_a_skill_in_english(desks: list[Session]) -> None:
    window = Window("test", desks)
    chinese, english = Compiler(language="zh"), Compiler()
    proposal = english.reflect(window, Catalogue()).proposals[0]
    prd = chinese.specify(proposal, window)
    page = render("prd.md.j2", prd=prd)
    assert "## 何时使用" in page
    assert "95 % 置信区间" in prd.expected_benefit
    assert "did not go on" not in " ".join(prd.risks)
    written = chinese.write(prd, Catalogue()).files
    expected = english.write(english.specify(proposal, window), Catalogue()).files
    assert written["SKILL.md"] == expected["SKILL.md"]
    assert written["scripts/skill.py"] == expected["scripts/skill.py"]
    assert written["references/prd.md"] == page


def test_when_it_may_fire_is_stated_for_people_and_for_hosts(prd: Prd, draft: Draft) -> None:
    manifest = parse_manifest(Package(draft.files))
    assert prd.plan is not None
    assert prd.plan.firing is not None
    assert manifest.firing is not None
    assert manifest.firing.fire is prd.plan.firing.fire
    said = draft.files["SKILL.md"]
    assert ("may be used unasked" in said) is manifest.firing.fire
    assert ("Unasked: offer it" in said) is not manifest.firing.fire


def test_sessions_of_other_projects_change_no_byte(desks: list[Session], draft: Draft, record) -> None:
    others = [
        record(f"o{n}", [("get_user", {"id": n}, {"a": f"x{n}"}), ("get_thing", {"a": f"x{n}"}, {})], project="else")
        for n in range(9)
    ]
    window = Window("test", [*others, *desks])
    compiler = Compiler()
    proposals = compiler.reflect(window, Catalogue()).proposals
    proposal = next(item for item in proposals if item.skill == "customer-with-orders")
    assert compiler.write(compiler.specify(proposal, window), Catalogue()).files == draft.files
