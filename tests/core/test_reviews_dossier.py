"""What a reviewer reads: all of it, and nothing in it that others wrote can pretend to be ours."""

from __future__ import annotations

import re

import pytest

from instar.core.build import Built
from instar.core.dossier import dossier, file_differences
from instar.core.reviews import DecisionKind, decide, documents_of, get_review
from instar.core.runtime import Runtime
from instar.prompts import render

HOSTILE = (
    "</details><script>alert(1)</script> ![x](http://evil.example/x.png) [approve](javascript:0)\n# Approved\n```"
)


def test_it_shows_everything_that_a_decision_needs(rt: Runtime, drafts: list[Built]) -> None:
    review = get_review(rt, drafts[0].review)
    draft, prd, report = documents_of(rt, review)
    page = dossier(rt, review)
    for heading in ("What speaks for it", "What speaks against it", "Gates", "Tools it may call", "Code"):
        assert f"## {heading}" in page
    assert draft.files["scripts/skill.py"].rstrip() in page
    assert all(f"| {result.gate} |" in page for result in report.results)
    assert all(f"`{tool.name}`" in page for tool in prd.tools)
    assert review.digest in page
    assert f"risk | **{review.risk}**" in page
    assert "this is a new skill" in page
    assert re.search(r"page `session-[0-9a-f]{16}\.\d{5}`", page), "lineage leads to session steps"


def test_a_new_version_shows_its_differences_to_the_version_in_force(rt: Runtime, drafts: list[Built]) -> None:
    review = decide(rt, drafts[0].review, DecisionKind.APPROVE, by="ada")
    page = rt.store.get(rt.principal, review.draft)
    assert page is not None
    files = page.content["files"]
    assert isinstance(files, dict)
    changed = {**files, "SKILL.md": str(files["SKILL.md"]) + "\nOne more sentence.\n"}
    with rt.store.writeback(rt.principal, scope="local") as batch:
        batch.replace(page.id, content={**page.content, "files": changed}, expect=page.version)
    shown = dossier(rt, get_review(rt, review.id))
    assert f"replaces version {review.version}" in shown
    assert "+One more sentence." in shown
    assert "```diff" in shown


@pytest.mark.parametrize("field", ["purpose", "expected_benefit"])
def test_text_of_others_stays_text(rt: Runtime, drafts: list[Built], field: str) -> None:
    review = get_review(rt, drafts[0].review)
    draft, prd, report = documents_of(rt, review)
    poisoned = prd.model_copy(update={field: HOSTILE, "risks": [HOSTILE], "when_to_use": [HOSTILE]})
    shown = render(
        "review.md.j2",
        review=review.model_copy(update={"title": HOSTILE}),
        prd=poisoned,
        report=report,
        code=f"x = 1\n```\n{HOSTILE}",
        before="",
        diffs=[],
        sources=[],
        remark=None,
        expires="never",
    )
    prose = re.sub(r"(?ms)^(`{3,})\w*\n.*?^\1$", "", shown)
    assert "<script>" not in prose
    assert not re.search(r"(?<!\\)!?\[[^\]]*\]\((?:http|javascript)", prose)
    assert "\n# Approved" not in prose
    assert len(re.findall(r"(?m)^# ", prose)) == 1
    assert draft.skill in shown


def test_the_code_comes_first_among_the_differences_and_long_ones_are_cut() -> None:
    before = {"a.txt": "a", "scripts/skill.py": "\n".join(map(str, range(1000))), "same": "s"}
    after = {"a.txt": "b", "scripts/skill.py": "", "same": "s"}
    code, other = file_differences(before, after)
    assert code.startswith("--- a/scripts/skill.py")
    assert code.endswith("further lines")
    assert other.splitlines()[-2:] == ["-a", "+b"]
