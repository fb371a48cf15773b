"""Gaps, trends, contrasts and the use of existing skills are counted, and little is concluded from little."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from instar.engine.compiler.compiler import Compiler
from instar.engine.compiler.gaps import gaps, hands_over
from instar.engine.compiler.lessons import clusters
from instar.engine.compiler.trends import Halves, contrasts
from instar.engine.compiler.upkeep import covers, skill_named, upkeep
from instar.engine.documents import Catalogue, CatalogueEntry, ProposalAction, Window
from instar.engine.plan import Plan
from instar.engine.session import Session, ToolCall
from instar.prompts import render


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ("transfer_to_human_agents", True),
        ("escalateToSupport", True),
        ("transfer_money", False),
        ("get_agent_details", False),
    ],
)
def test_a_tool_that_hands_over_is_known_by_its_name(tool: str, expected: bool) -> None:
    assert hands_over(tool) is expected


def test_what_is_handed_to_a_human_is_a_gap_with_the_words_of_the_requests(record) -> None:
    handed = [
        record(f"s{n}", [("user", "I want a refund for a voucher"), ("transfer_to_human", {"n": n}, "ok")])
        for n in range(4)
    ]
    (gap,) = gaps(handed)
    assert (gap.what, gap.support.tasks, gap.words) == ("handed to a human", 4, ["refund", "voucher"])
    assert gaps(handed[:2]) == []


def test_a_tool_that_is_not_there_is_a_gap(record) -> None:
    sessions = [
        record(f"s{n}", [("send_fax", {"n": n}, "Error: Tool 'send_fax' not found.", "error")]) for n in range(3)
    ]
    assert [gap.what for gap in gaps(sessions)] == ["tried with the tool send_fax, which is not there"]


def test_a_missing_record_is_not_a_missing_tool(record) -> None:
    sessions = [
        record(f"s{n}", [("get", {"n": n}, "Error: order not found", "error"), ("get", {}, {})]) for n in range(3)
    ]
    assert gaps(sessions) == []


def dated(record, number: int, *, failing: bool) -> Session:
    steps = [("ping", {"n": number}, "Error: timed out", "error")] if failing else [("ping", {"n": number}, "ok")]
    return replace(record(f"d{number}", steps), started_at=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number))


def test_a_failure_that_becomes_common_is_rising(record) -> None:
    sessions = [dated(record, number, failing=number >= 20) for number in range(40)]
    (cluster,) = clusters(sessions)
    assert Halves.of(sessions).trend(cluster) == "rising"
    early = [dated(record, number, failing=number < 20) for number in range(40)]
    assert Halves.of(early).trend(clusters(early)[0]) == "falling"


def test_nothing_is_said_about_time_without_dates_or_with_few_sessions(record) -> None:
    few = [dated(record, number, failing=number > 4) for number in range(8)]
    assert Halves.of(few).trend(clusters(few)[0]) == ""
    undated = [replace(session, started_at=None) for session in few * 4]
    assert Halves.of(undated).trend(clusters(undated)[0]) == ""


def test_the_same_share_in_both_halves_is_steady(record) -> None:
    sessions = [dated(record, number, failing=number % 2 == 0) for number in range(40)]
    assert Halves.of(sessions).trend(clusters(sessions)[0]) == "steady"


def test_a_tool_that_goes_with_success_is_told_with_both_counts(record) -> None:
    sessions = [
        record(f"s{n}", [("check", {"n": n}, "ok")] if n % 2 else [("guess", {"n": n}, "ok")], success=bool(n % 2))
        for n in range(24)
    ]
    found = {contrast.tool: contrast for contrast in contrasts(sessions)}
    assert (found["check"].succeeded_with, found["check"].sessions_with) == (12, 12)
    assert (found["check"].succeeded_without, found["check"].sessions_without) == (0, 12)


def test_a_small_difference_is_no_contrast(record) -> None:
    sessions = [
        record(f"s{n}", [("check", {"n": n}, "ok")] if n % 2 else [("guess", {"n": n}, "ok")], success=n % 3 > 0)
        for n in range(24)
    ]
    assert contrasts(sessions) == []


def test_repeated_trials_of_one_task_make_no_contrast(record) -> None:
    sessions = [
        record(
            f"s{n}",
            [("check" if n % 2 else "guess", {"n": n}, "ok")],
            success=bool(n % 2),
            task=f"only-{n % 2}",
        )
        for n in range(24)
    ]
    assert contrasts(sessions) == []


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("Bash", {"command": "cd x && instar skills run user-with-orders --arg id=1"}, "user-with-orders"),
        ("Skill", {"skill": "user-with-orders"}, "user-with-orders"),
        ("mcp__instar__run_skill", {"name": "user-with-orders"}, "user-with-orders"),
        ("Bash", {"command": "instar skills list"}, ""),
        ("get_order", {"name": "user-with-orders"}, ""),
    ],
)
def test_a_use_of_a_skill_is_recognised(tool: str, arguments: dict[str, str], expected: str) -> None:
    assert skill_named(ToolCall(0, "c", tool, dict(arguments), 0)) == expected


@pytest.fixture
def plan(desks: list[Session]) -> Plan:
    found = Compiler().reflect(Window("test", desks), Catalogue()).proposals[0].plan
    assert found
    return found


def entry(name: str, plan: Plan | None) -> CatalogueEntry:
    return CatalogueEntry(name, "0.1.0", "", ("get_customer",), f"prd-{name}", plan=plan)


def test_uses_failures_and_occasions_are_counted(record, plan: Plan, desk: Callable[..., Session]) -> None:
    used = record("u", [("Skill", {"skill": "mine"}, "ok"), ("Skill", {"skill": "mine"}, "Error: x", "error")])
    uses, retired = upkeep([used, desk(1), desk(2)], Catalogue((entry("mine", plan),)))
    assert [(use.skill, use.uses, use.failed, use.missed) for use in uses] == [("mine", 2, 1, 2)]
    assert retired == []


def test_a_skill_that_mostly_fails_is_to_be_retired(record, plan: Plan) -> None:
    sessions = [record(f"s{n}", [("Skill", {"skill": "mine"}, "Error: x", "error")]) for n in range(6)]
    _, (proposal,) = upkeep(sessions, Catalogue((entry("mine", plan),)))
    assert (proposal.action, proposal.skill, proposal.plan) == (ProposalAction.RETIRE, "mine", None)
    assert "6 of 6 uses" in proposal.summary
    assert proposal.evidence == [session.evidence_id(0) for session in sessions]
    assert proposal.against == ["0 of its 6 uses in this window worked."]


def test_a_skill_without_any_occasion_is_to_be_retired_only_after_enough_sessions(record, plan: Plan) -> None:
    sessions = [record(f"s{n}", [("user", "hi"), ("other", {"n": n}, "ok")]) for n in range(30)]
    catalogue = Catalogue((entry("mine", plan),))
    assert upkeep(sessions[:29], catalogue)[1] == []
    (proposal,) = upkeep(sessions, catalogue)[1]
    assert "30 sessions" in proposal.summary
    assert "may come back" in proposal.against[0]


def test_a_skill_that_another_one_covers_is_to_be_retired(record, plan: Plan) -> None:
    smaller = plan.model_copy(update={"nodes": plan.nodes[:1]})
    assert covers(plan, smaller)
    assert not covers(smaller, plan)
    assert not covers(plan, plan)
    catalogue = Catalogue((entry("large", plan), entry("small", smaller)))
    (proposal,) = upkeep([record("s", [("x", {}, "ok")])], catalogue)[1]
    assert proposal.skill == "small"
    assert "large does the same and more" in proposal.summary
    assert proposal.against[0].startswith("large makes further calls")
    assert "get_order" in proposal.against[0]


def test_the_page_tells_all_of_it(record, plan: Plan) -> None:
    sessions = [
        record(
            f"s{n}",
            [
                ("user", "refund the voucher"),
                ("transfer_to_human", {"n": n}, "ok"),
                ("Skill", {"skill": "mine"}, "no", "error"),
            ],
            success=False,
        )
        for n in range(6)
    ]
    reflection = Compiler().reflect(Window("test", sessions), Catalogue((entry("mine", plan),)))
    page = render("reflection.md.j2", reflection=reflection)
    assert [proposal.action for proposal in reflection.proposals] == [ProposalAction.RETIRE]
    assert "| handed to a human |" in page
    assert "| `mine` | 6 | 6 | 0 sessions |" in page


def test_skills_that_one_pattern_does_all_of_are_merged_under_the_larger_name(
    plan: Plan, desks: list[Session]
) -> None:
    first = plan.model_copy(update={"nodes": plan.nodes[:1]})
    window = Window("test", desks)
    catalogue = Catalogue((entry("customer-alone", first), entry("customer-too", first)))
    compiler = Compiler()
    proposal = compiler.reflect(window, catalogue).proposals[0]
    assert (proposal.action, proposal.skill) == (ProposalAction.MERGE, "customer-alone")
    assert "customer-alone and customer-too" in proposal.summary
    draft = compiler.write(compiler.specify(proposal, window), catalogue)
    assert (draft.skill, draft.version) == ("customer-alone", "0.2.0")
