"""A reflection tells what recurs, proposes little, says why not, and routes to the skills that exist."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from instar.engine.compiler.acceptance import is_feasible
from instar.engine.compiler.compiler import Compiler
from instar.engine.compiler.propose import spread
from instar.engine.documents import Catalogue, CatalogueEntry, ProposalAction, Reflection, Window
from instar.engine.session import Session, Step, ToolResult
from instar.prompts import render


def reflect(sessions: list[Session], *entries: CatalogueEntry) -> Reflection:
    return Compiler().reflect(Window("test", sessions), Catalogue(entries))


def entry(name: str, reflection: Reflection, **changes: object) -> CatalogueEntry:
    values: dict[str, object] = {
        "version": "0.1.0",
        "description": "",
        "tools": ("get_customer", "get_order"),
        "lineage": "prd-1",
        "plan": reflection.proposals[0].plan,
    }
    return CatalogueEntry(name=name, **(values | changes))  # type: ignore[arg-type]


def test_what_recurs_is_proposed_with_what_speaks_against_it(desks: list[Session]) -> None:
    reflection = reflect(desks)
    (proposal,) = reflection.proposals
    assert proposal.skill == "customer-with-orders"
    assert proposal.action is ProposalAction.NEW
    assert proposal.support.tasks == 10
    assert "2 did not go on" in proposal.against[0]
    assert proposal.expected_turns_saved > 10


def test_a_window_with_nothing_in_it_proposes_nothing() -> None:
    reflection = reflect([])
    assert (reflection.proposals, reflection.patterns, reflection.failure_clusters) == ([], [], [])
    assert "Nothing is proposed" in render("reflection.md.j2", reflection=reflection)


def test_the_order_of_sessions_does_not_matter(desks: list[Session]) -> None:
    assert reflect(desks) == reflect(desks[::-1]) == reflect([*desks[5:], *desks[:5]])


def test_a_skill_that_exists_is_not_proposed_again(desks: list[Session]) -> None:
    first = reflect(desks)
    again = reflect(desks, entry("customer-with-orders", first))
    assert again.proposals == []
    assert any("exists as customer-with-orders 0.1.0" in abstention.reason for abstention in again.abstentions)


def test_a_skill_of_the_host_with_the_same_tools_is_not_doubled(desks: list[Session]) -> None:
    hosted = entry("their-orders", reflect(desks), own=False, plan=None)
    again = reflect(desks, hosted)
    assert again.proposals == []
    assert any("in the agent's host" in abstention.reason for abstention in again.abstentions)


def test_a_changed_plan_improves_the_existing_skill_under_its_name(desks: list[Session]) -> None:
    first = reflect(desks)
    plan = first.proposals[0].plan
    assert plan is not None
    old = plan.model_copy(update={"nodes": [plan.nodes[0], plan.nodes[1].model_copy(update={"optional": True})]})
    (proposal,) = reflect(desks, entry("old-name", first, plan=old)).proposals
    assert (proposal.action, proposal.skill) == (ProposalAction.IMPROVE, "old-name")


def test_a_name_of_another_lineage_is_never_taken_over(desks: list[Session]) -> None:
    foreign = entry("customer-with-orders", reflect(desks), plan=None, tools=("send_mail",))
    (proposal,) = reflect(desks, foreign).proposals
    assert proposal.action is ProposalAction.NEW
    assert proposal.skill == "customer-with-orders-by-customer-id"


def test_what_is_hardly_ever_needed_is_not_proposed(desk: Callable[..., Session]) -> None:
    sessions = [desk(number, followed=number % 8 == 0) for number in range(48)]
    reflection = reflect(sessions)
    assert reflection.proposals == []
    assert reflection.patterns == [] or any("needed after" in item.reason for item in reflection.abstentions)


def test_a_pattern_of_too_few_tasks_to_hold_one_out_is_not_proposed(desk: Callable[..., Session]) -> None:
    few = reflect([desk(number, followed=True) for number in range(4)])
    assert few.patterns
    assert few.proposals == []
    assert any("leave none to hold out" in abstention.reason for abstention in few.abstentions)
    assert reflect([desk(number, followed=True) for number in range(5)]).proposals


def test_tools_of_the_agents_host_make_no_skill(record) -> None:
    sessions = [
        record(
            f"s{number}",
            [
                ("Glob", {"pattern": f"**/f{number}*"}, [f"/repo/f{number}a.py", f"/repo/f{number}b.py"]),
                ("Read", {"file_path": f"/repo/f{number}a.py"}, "text"),
                ("Read", {"file_path": f"/repo/f{number}b.py"}, "text"),
            ],
        )
        for number in range(8)
    ]
    reflection = reflect(sessions)
    assert reflection.proposals == []
    assert reflection.patterns == [] or any("agent's host" in item.reason for item in reflection.abstentions)


def test_why_coding_sessions_gave_no_program_is_said_with_numbers(record) -> None:
    sessions = [
        record(f"s{number}", [("Bash", {"command": f"go test ./pkg{number}"}, "ok")] * 5, project="repo")
        for number in range(6)
    ]
    reflection = reflect(sessions)
    assert reflection.proposals == []
    (said,) = [item for item in reflection.abstentions if "coding sessions" in item.what]
    assert "30 of 30 calls are shell commands, 6 of them different" in said.reason
    assert [pattern.command for pattern in reflection.commands] == ["go test"]


def test_hostile_text_of_sessions_cannot_shape_the_page(record) -> None:
    nasty = "Error: x|y\n\n# Approved\n![a](http://evil.example/a.png)<img src=x>"
    sessions = [record(f"s{n}", [("pay|now", {"a": "{{ 7*7 }}"}, nasty, "error")] * 2) for n in range(3)]
    shown = render("reflection.md.j2", reflection=reflect(sessions))
    assert "# Approved" not in shown.splitlines()
    assert "![" not in shown.replace("\\!\\[", "")
    assert "<img" not in shown.replace("\\<img", "")


def test_at_most_the_set_number_is_proposed(desks: list[Session]) -> None:
    reflection = Compiler(proposals=0).reflect(Window("test", desks), Catalogue())
    assert reflection.proposals == []
    assert any("0 better ones" in item.reason for item in reflection.abstentions)


def test_every_page_cites_steps_that_exist(desks: list[Session]) -> None:
    pages = {session.evidence_id(step.index) for session in desks for step in session.steps}
    reflection = reflect(desks)
    cited = {*reflection.evidence, *(page for proposal in reflection.proposals for page in proposal.evidence)}
    assert cited <= pages


def test_a_pattern_of_which_no_use_can_be_replayed_is_infeasible(desks: list[Session]) -> None:
    (pattern,) = reflect(desks).patterns
    answered = [
        replace(session, steps=[step for step in session.steps if not _answer_of(step, "get_customer")])
        for session in desks
    ]
    assert is_feasible(pattern, desks)
    assert not is_feasible(pattern, answered)


def _answer_of(step: Step, tool: str) -> bool:
    return isinstance(step, ToolResult) and step.tool == tool


def test_cited_evidence_is_spread_over_sessions() -> None:
    pages = [f"session-{session}.{step:05}" for session in "abc" for step in range(10)]
    assert spread(pages, 4) == ["session-a.00000", "session-a.00001", "session-b.00000", "session-c.00000"]
    assert spread(pages[:2], 4) == pages[:2]
