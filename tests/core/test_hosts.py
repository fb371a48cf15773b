from __future__ import annotations

from pathlib import Path

from instar.core.hosts import host_skills
from instar.core.ingest import ingest
from instar.core.learn import distill, reflect
from instar.core.runtime import runtime
from instar.core.settings import Settings, load_settings

SAMPLES = Path(__file__).parents[2] / "examples" / "order_desk" / "sessions"


def install(folder: Path, name: str, body: str) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Looks things up.\n---\n\n{body}\n")


def test_skills_of_hosts_are_read_and_the_projects_come_first(tmp_path: Path) -> None:
    install(tmp_path / "project", "look-up", "Call get_order.")
    install(tmp_path / "user", "look-up", "Call another_tool.")
    install(tmp_path / "user", "ours", "An exported copy.")
    (tmp_path / "user" / "broken").mkdir()
    (tmp_path / "user" / "broken" / "SKILL.md").write_bytes(b"\xff\xfe no skill")
    (entry,) = host_skills([tmp_path / "project", tmp_path / "user", tmp_path / "absent"], {"ours"})
    assert (entry.name, entry.own) == ("look-up", False)
    assert "get_order" in entry.tools
    assert "another_tool" not in entry.tools


def test_what_a_host_has_installed_is_not_proposed_again(tmp_path: Path) -> None:
    with runtime(Settings(home=tmp_path / "home")) as rt:
        ingest(rt, [SAMPLES])
        distill(rt)
        before = reflect(rt)
    assert before.proposals
    plan = before.proposals[0].plan
    assert plan is not None
    tools = sorted({node.tool for node in plan.nodes})
    install(tmp_path / "skills", "theirs", "Call " + ", then ".join(tools) + ".")
    with runtime(Settings(home=tmp_path / "home", host_skills=(tmp_path / "skills",))) as rt:
        after = reflect(rt)
    assert before.proposals[0].skill not in {proposal.skill for proposal in after.proposals}
    assert any("exists as theirs" in abstention.reason for abstention in after.abstentions)


def test_the_known_places_are_looked_at_unless_others_are_set(tmp_path: Path) -> None:
    usual = load_settings({"INSTAR_HOME": str(tmp_path)}, {}, project=tmp_path).host_skills
    assert tmp_path / ".claude/skills" in usual
    chosen = {"INSTAR_HOME": str(tmp_path), "INSTAR_HOST_SKILLS": f"{tmp_path}/a,{tmp_path}/b"}
    assert load_settings(chosen, {}, project=tmp_path).host_skills == (tmp_path / "a", tmp_path / "b")
