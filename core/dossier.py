"""What a person reads before deciding, as one Markdown page. Everything in it that others wrote is escaped."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from datetime import datetime, timedelta

from instar.core.lineage import CODE, line_sources
from instar.core.review_pages import Decision, Review, decision_of, documents_of, proposal_of
from instar.core.runtime import Runtime
from instar.engine.documents import Draft
from instar.prompts import render
from instar.skills.errors import RegistryError

DIFF_LINES = 400
"""Lines of one file's differences that are shown; a page that nobody reads to its end hides more than it shows."""
APART = ("scripts/manifest.json",)
"""Files that differ in every version, and whose differences say nothing that the others do not."""


def dossier(rt: Runtime, review: Review) -> str:
    """The page of a review: purpose, evidence, risk and findings, gates, code, differences, for and against, lineage.

    Raises:
        NotFound: a document that it shows is no longer stored.
    """
    expires = _expires(rt, review)
    if review.action == "retire":
        return render("retirement.md.j2", review=review, proposal=proposal_of(rt, review), expires=expires)
    draft, prd, report = documents_of(rt, review)
    before, diffs = _differences(rt, draft)
    sources, _ = line_sources(rt, draft, steps=1)
    return render(
        "review.md.j2",
        review=review,
        prd=prd,
        report=report,
        code=draft.files[CODE],
        before=before,
        diffs=diffs,
        sources=sources,
        remark=_remark(rt, review),
        expires=expires,
    )


def _expires(rt: Runtime, review: Review) -> str:
    ends = datetime.fromisoformat(review.opened_at) + timedelta(days=rt.settings.review_days)
    return f"{ends:%Y-%m-%d %H:%M} UTC, after {rt.settings.review_days} days"


def _remark(rt: Runtime, review: Review) -> Decision | None:
    return decision_of(rt, review.revises) if review.revises else None


def _differences(rt: Runtime, draft: Draft) -> tuple[str, list[str]]:
    """The version in force and, file by file, what the draft changes in it; nothing where there is none."""
    try:
        record = rt.registry.get(draft.skill).record
        package = rt.registry.load(draft.skill, approved_digest=record.digest)
    except RegistryError:
        return "", []
    return record.version, file_differences({path: package.text(path) for path in package}, draft.files)


def file_differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """A unified diff for each file that differs, the code first."""
    changed = [path for path in sorted({*before, *after}) if before.get(path) != after.get(path)]
    shown = []
    for path in sorted(changed, key=lambda path: (path != CODE, path != "SKILL.md", path)):
        if path in APART:
            continue
        lines = list(
            difflib.unified_diff(
                before.get(path, "").splitlines(),
                after.get(path, "").splitlines(),
                f"a/{path}",
                f"b/{path}",
                "",
                "",
                3,
                "",
            )
        )
        more = len(lines) - DIFF_LINES
        shown.append("\n".join([*lines[:DIFF_LINES], *([f"… {more} further lines"] if more > 0 else [])]))
    return shown
