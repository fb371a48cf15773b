"""Rolling a skill back and retiring it: a person's decision, stored first, then carried out exactly once.

Nothing is deleted. An older version is in force again, or none; a newer publication ends either.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from instar.core import records
from instar.core.errors import AlreadyDecided, NotFound
from instar.core.reviews import comment_of, list_reviews, may_decide
from instar.core.runtime import Runtime
from instar.memstore import Page, PageDraft, PageType, Provenance, Rejected
from instar.skills.records import version_order
from instar.skills.registry import Entry
from instar.skills.standing import Standing

ChangeKind = Literal["rollback", "retire"]


class Change(BaseModel):
    """Who put which version of a skill in force, or none, when and why."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    skill: str
    kind: ChangeKind
    version: str
    """The version in force from now on; empty when the skill is retired."""
    digest: str
    before: str
    """The version that was in force; empty when the skill was retired."""
    after: str
    """The newest version at that time; a newer one ends what was decided here."""
    by: str
    at: str
    comment: str
    attested: Literal["cli"] = "cli"
    page: str = ""
    """The page of this decision."""


def rollback(rt: Runtime, skill: str, *, by: str, to: str = "", comment: str = "") -> Change:
    """Put an earlier version in force: `to`, or the one before the present one; a retired skill comes back as it was.

    Raises:
        NotPublished: there is no such skill or version.
        NotFound: there is no version to go back to, or it is in force already.
        ReviewRefused: the reviewer is not allowed.
        AlreadyDecided: someone changed the skill at this moment.
        SkillQuarantined: the version was moved aside, because its files had changed.
    """
    by = may_decide(rt, by)
    earlier = settle(rt, skill)
    entries, before = _known(rt, skill)
    target = rt.registry.get(skill, to) if to else _earlier(entries, before, skill)
    if before is not None and target.record.version == before:
        raise NotFound(f"{skill} {before} is in force already", f"`instar skills history {skill}` shows all versions")
    return _decide(rt, _change(skill, entries, target, before=before, by=by, comment=comment), earlier + 1)


def retire(rt: Runtime, skill: str, *, by: str, comment: str = "") -> Change:
    """Take a skill out of use: it is not listed, run or exported any more, and its name stays taken.

    Raises:
        NotPublished: there is no such skill.
        NotFound: it is retired already.
        ReviewRefused: the reviewer is not allowed.
        AlreadyDecided: someone changed the skill at this moment.
    """
    by = may_decide(rt, by)
    earlier = settle(rt, skill)
    entries, before = _known(rt, skill)
    if before is None:
        raise NotFound(f"{skill} is retired already", f"`instar skills rollback {skill}` brings it back")
    return _decide(rt, _change(skill, entries, None, before=before, by=by, comment=comment), earlier + 1)


def settle(rt: Runtime, skill: str) -> int:
    """Carry out what was decided about a skill and interrupted, in the order in which it was decided.

    Returns how many decisions there are: who decides next bears the next number, and meets whoever was faster.
    """
    list_reviews(rt)
    changes = _changes(rt, skill)
    for page in changes:
        _carry_out(rt, Change.model_validate(page.content))
    return len(changes)


def history(rt: Runtime, skill: str) -> list[Change]:
    """Every rollback and retirement of a skill, the oldest first."""
    return [Change.model_validate(page.content) for page in _changes(rt, skill)]


def _change(
    skill: str, entries: tuple[Entry, ...], target: Entry | None, *, before: str | None, by: str, comment: str
) -> Change:
    return Change(
        skill=skill,
        kind="rollback" if target else "retire",
        version=target.record.version if target else "",
        digest=target.record.digest if target else "",
        before=before or "",
        after=entries[-1].record.version,
        by=by,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        comment=comment_of(comment),
    )


def _decide(rt: Runtime, change: Change, number: int) -> Change:
    change = change.model_copy(update={"page": f"{records.DECISION}-{change.skill}.{number}"})
    content: dict[str, JsonValue] = change.model_dump(mode="json")
    page = PageDraft(
        id=change.page,
        kind=records.STANDING,
        type=PageType.EVIDENCE,
        content=content,
        provenance=Provenance(source=f"reviewer:{change.by}", references=_approvals(rt, change)),
        tags=(f"skill:{change.skill}",),
    )
    rt.step("decide")
    try:
        with rt.store.writeback(rt.principal, scope=rt.settings.scope) as batch:
            batch.append(page)
    except Rejected as rejected:
        first = rt.store.get(rt.principal, change.page)
        if first is None:
            raise
        what = Change.model_validate(first.content)
        raise AlreadyDecided(
            f"{change.skill} was changed at this moment: {what.kind} by {what.by} at {what.at}",
            f"`instar skills history {change.skill}` shows what is in force",
        ) from rejected
    rt.step("decided")
    _carry_out(rt, change)
    return change


def _carry_out(rt: Runtime, change: Change) -> None:
    """Bring the registry to what was decided, unless something later was; doing it twice is doing it once."""
    done = f"{records.PUBLICATION}-{change.page}"
    if rt.store.get(rt.principal, done) is not None:
        return
    newest = rt.registry.versions(change.skill)[-1].record.version
    if version_order(newest) <= version_order(change.after):
        rt.registry.stand(
            Standing(
                name=change.skill,
                version=change.version,
                digest=change.digest,
                after=change.after,
                decision=change.page,
                by=change.by,
                at=datetime.fromisoformat(change.at),
            )
        )
    content: dict[str, JsonValue] = {"name": change.skill, "version": change.version, "digest": change.digest}
    page = PageDraft(
        id=done,
        kind=f"{records.STANDING}-done",
        type=PageType.EVIDENCE,
        content=content | {"action": change.kind, "reviewer": change.by},
        provenance=Provenance(source="publish", references=(change.page,)),
        tags=(f"skill:{change.skill}",),
        parent=change.page,
    )
    rt.step("publication")
    with rt.store.writeback(rt.principal, scope=rt.settings.scope) as batch:
        batch.append(page)
    rt.step("published")


def _known(rt: Runtime, skill: str) -> tuple[tuple[Entry, ...], str | None]:
    """All versions, and the one in force; None when the skill is retired."""
    entries = rt.registry.versions(skill)
    if not entries:
        rt.registry.get(skill)  # says that there is none
    standing = rt.registry.standing(skill)
    if standing is None:
        return entries, entries[-1].record.version
    return entries, standing.version or None


def _earlier(entries: tuple[Entry, ...], before: str | None, skill: str) -> Entry:
    if before is None:
        return entries[-1]
    older = [entry for entry in entries if version_order(entry.record.version) < version_order(before)]
    if not older:
        raise NotFound(
            f"{skill} {before} is the first version", f"`instar skills retire {skill}` takes it out of use"
        )
    return older[-1]


def _approvals(rt: Runtime, change: Change) -> tuple[str, ...]:
    """The approval of the version that comes back, where this store holds it."""
    if not change.version:
        return ()
    approval = rt.registry.get(change.skill, change.version).record.approval
    return () if rt.store.get(rt.principal, approval) is None else (approval,)


def _changes(rt: Runtime, skill: str) -> list[Page]:
    return list(
        rt.store.find(rt.principal, scope=rt.settings.scope, kind=records.STANDING, tag=f"skill:{skill}", exact=True)
    )
