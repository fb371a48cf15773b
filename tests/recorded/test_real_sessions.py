"""What the chain makes of sessions that others recorded. They are read from INSTAR_DATA, never copied."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from instar.core.build import Built, build
from instar.core.ingest import ingest
from instar.core.learn import distill, reflect, specify
from instar.core.reviews import DecisionKind, decide
from instar.core.runtime import Runtime, runtime
from instar.core.settings import Settings
from instar.core.skills import call_skill
from instar.engine.documents import Prd, Reflection
from instar.engine.plan import FromResult
from instar.sandbox.report import Verdict

HERE = Path(__file__).parent
DATA = Path(os.environ.get("INSTAR_DATA", HERE.parents[2] / "shared" / "data"))


def recorded(name: str) -> Path:
    folder = DATA / name
    if not folder.is_dir():
        pytest.skip(f"no recorded sessions at {folder}; set INSTAR_DATA")
    return folder


@dataclass
class Learned:
    rt: Runtime
    reflection: Reflection
    prds: list[Prd]
    drafts: list[Built]

    def with_tools(self, *tools: str) -> tuple[Prd, Built]:
        """The requirement and the draft whose plan calls all of these tools."""
        for prd, built in zip(self.prds, self.drafts, strict=True):
            if prd.plan is not None and set(tools) <= {node.tool for node in prd.plan.nodes}:
                return prd, built
        raise AssertionError([[need.name for need in prd.tools] for prd in self.prds])


def learn(home: Path, tools: Path | None, *folders: Path) -> Iterator[Learned]:
    with runtime(Settings(home=home, tools=tools)) as rt:
        ingest(rt, folders)
        distill(rt)
        reflection = reflect(rt)
        prds = [specify(rt, proposal.id) for proposal in reflection.proposals]
        yield Learned(rt, reflection, prds, [build(rt, prd.id) for prd in prds])


@pytest.fixture(scope="module")
def airline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Learned]:
    folder = recorded("tau-bench")
    yield from learn(tmp_path_factory.mktemp("airline"), HERE / "tools_airline.toml", folder)


@pytest.fixture(scope="module")
def retail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Learned]:
    folder = recorded("agentrx")
    yield from learn(tmp_path_factory.mktemp("retail"), HERE / "tools_retail.toml", folder)


def loops(prd: Prd, tool: str) -> bool:
    """Whether the plan calls `tool` once for each item of a list."""
    assert prd.plan is not None
    node = next(node for node in prd.plan.nodes if node.tool == tool)
    return any(
        isinstance(binding, FromResult) and any(str(element).startswith("*") for element in binding.path)
        for binding in node.arguments.values()
    )


def replay(built: Built) -> dict[str, int]:
    return next(result.counts for result in built.report.results if result.gate == "replay")


def test_airline_sessions_teach_to_fetch_a_user_with_all_reservations(airline: Learned) -> None:
    prd, built = airline.with_tools("get_user_details", "get_reservation_details")
    assert loops(prd, "get_reservation_details")
    assert built.verdict is Verdict.PASS, built.report
    assert replay(built)["wrong"] == 0
    assert replay(built)["exact"] >= 3


def test_the_approved_airline_skill_returns_what_the_real_tools_know(airline: Learned) -> None:
    prd, built = airline.with_tools("get_user_details", "get_reservation_details")
    decide(airline.rt, built.review, DecisionKind.APPROVE, by="ada")
    parameter = next(iter(prd.input_schema["required"]))  # type: ignore[arg-type]
    call = call_skill(airline.rt, built.skill, {str(parameter): "mia_li_3668"})
    assert call.status == "returned", call.error
    text = str(call.value)
    for reservation in ("NO6JO3", "AIXC49", "HKEG34"):
        assert f"'reservation_id': '{reservation}'" in text
    assert "'user_id': 'mia_li_3668'" in text


def test_retail_sessions_teach_to_find_a_user_with_all_orders(retail: Learned) -> None:
    prd, built = retail.with_tools("get_user_details", "get_order_details")
    assert {need.name for need in prd.tools} & {"find_user_id_by_name_zip", "find_user_id_by_email"}
    assert loops(prd, "get_order_details")
    assert built.verdict is Verdict.PASS, built.report
    assert replay(built)["wrong"] == 0


def test_coding_sessions_teach_commands_and_failures_and_no_invented_skill(tmp_path: Path) -> None:
    folder = recorded("claude-code")
    with runtime(Settings(home=tmp_path)) as rt:
        report = ingest(rt, [folder])
        distill(rt)
        reflection = reflect(rt)
    assert report.sessions == 41
    assert reflection.proposals == []
    assert {"lint", "test", "format"} <= {command.category for command in reflection.commands}
    assert any("Read" in cluster.lesson for cluster in reflection.failure_clusters)
    assert reflection.abstentions


def test_the_users_refusals_are_feedback_and_not_failures(tmp_path: Path) -> None:
    folder = recorded("claude-code")
    with runtime(Settings(home=tmp_path)) as rt:
        report = ingest(rt, [folder])
    assert report.refusals >= 12
    assert report.errors + report.refusals == 54
