"""Validates a batch against what is committed, and works out the versions that it makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime

from pydantic import JsonValue

from instar.memstore.backend import Pages
from instar.memstore.pages import RESIDENCY, Page, Pin, Provenance, canonical, digest_of
from instar.memstore.represent import Representer, Subject
from instar.memstore.scopes import Principal, within
from instar.memstore.writes import Change, Entry, Limits, Op, ReasonCode, Rejection

_TEXT = "text"
"""The name under which a page's text counts as a field in merges and drops."""


class _No(Exception):
    """Carries a reason from the rule that found it."""

    def __init__(self, code: ReasonCode, detail: str) -> None:
        self.code, self.detail = code, detail
        super().__init__(code, detail)


@dataclass(slots=True)
class Outcome:
    """What a batch would do: the versions to put, per entry the version it leads to, or the reasons against it."""

    pages: list[Page] = field(default_factory=list)
    results: list[tuple[Entry, Page | None]] = field(default_factory=list)
    """Every entry with the page as it is after it; None where it was rejected."""
    unchanged: set[int] = field(default_factory=set)
    """Positions of entries that change nothing."""
    rejections: list[Rejection] = field(default_factory=list)


class Validation:
    """One batch against one consistent view. Rules run in the order of the reason codes.

    `trusting` takes appended pages for new without looking. What it finds sound is so if they are, and the back end
    says `Raced` when one is not; what it rejects is to be judged once more.
    """

    def __init__(
        self,
        view: Pages,
        *,
        by: Principal,
        scope: str,
        now: datetime,
        representer: Representer,
        limits: Limits,
        trusting: bool = False,
    ) -> None:
        self._view, self._by, self._scope, self._now, self._trusting = view, by, scope, now, trusting
        self._representer, self._limits = representer, limits
        self._granted = by.may(scope)
        self._heads: dict[str, Page] = {}
        self._parents: dict[str, str] = {}
        self._known: dict[str, str] = {}
        """Scope of every page that may be referred to."""

    def run(self, entries: Sequence[Entry]) -> Outcome:
        """Judge every entry; a batch with one rejection has no effect, and all its rejections are named."""
        outcome = Outcome()
        self._load(entries)
        for position, entry in enumerate(entries):
            try:
                page, changed = self._judge(entry)
            except _No as no:
                outcome.rejections.append(Rejection(entry.page_id, entry.op, no.code, no.detail))
                outcome.results.append((entry, None))
                continue
            outcome.results.append((entry, page))
            if changed:
                self._heads[page.id] = page
                outcome.pages.append(page)
            else:
                outcome.unchanged.add(position)
        return outcome

    def _load(self, entries: Sequence[Entry]) -> None:
        named: set[str] = set()
        referred: set[str] = set()
        for entry in entries:
            if entry.problem is not None:
                continue
            if not (entry.generated or (self._trusting and entry.op is Op.APPEND)):
                named.add(entry.page_id)
            draft = entry.draft
            referred.update(draft.provenance.references if draft else entry.change.references)
            if draft and draft.parent:
                self._parents[entry.page_id] = draft.parent
        if named:
            self._heads = self._view.heads(named)
        referred.update(self._parents.values())
        if referred:
            self._load_scopes(entries, referred)

    def _load_scopes(self, entries: Sequence[Entry], referred: Set[str]) -> None:
        appended = {entry.page_id: self._scope for entry in entries if entry.op is Op.APPEND and not entry.problem}
        missing = referred - appended.keys() - self._heads.keys()
        self._known = {
            **(self._view.scopes(missing) if missing else {}),
            **appended,
            **{page.id: page.scope for page in self._heads.values()},
        }

    def _judge(self, entry: Entry) -> tuple[Page, bool]:
        if entry.problem is not None:
            raise _No(entry.problem.code, entry.problem.detail)
        self._check_references(entry)
        if not self._granted:
            raise _No(ReasonCode.SCOPE_DENIED, f"no grant on {self._scope}")
        if entry.op is Op.APPEND:
            return self._append(entry)
        head = self._target(entry)
        page = self._merge(entry, head) if entry.op is Op.MERGE else self._replace(entry, head)
        self._check_policy(head, page)
        return page, page is not head

    def _check_references(self, entry: Entry) -> None:
        references = entry.draft.provenance.references if entry.draft else entry.change.references
        if references and (dangling := [reference for reference in references if not self._readable(reference)]):
            raise _No(ReasonCode.PROVENANCE, f"{len(dangling)} references do not resolve, first {dangling[0]}")
        parent = entry.draft.parent if entry.draft else None
        if parent is None:
            return
        if not self._readable(parent):
            raise _No(ReasonCode.PROVENANCE, f"the parent {parent} does not resolve")
        seen = {entry.page_id}
        above: str | None = parent
        while above is not None:
            if above in seen:
                raise _No(ReasonCode.SCHEMA, "the page would be its own ancestor")
            seen.add(above)
            above = self._parents.get(above) if above not in self._heads else None

    def _readable(self, page_id: str) -> bool:
        # What exists out of grant does not resolve: a reference must not tell whether it exists.
        scope = self._known.get(page_id)
        return scope is not None and (scope == self._scope or self._by.may(scope))

    def _append(self, entry: Entry) -> tuple[Page, bool]:
        draft, forms = entry.draft, entry.forms
        if draft is None or forms is None:
            raise _No(ReasonCode.SCHEMA, "an append without a draft")
        existing = self._heads.get(entry.page_id)
        if existing is not None:
            if existing.scope == self._scope and self._same(entry, existing):
                return existing, False
            raise _No(ReasonCode.DUPLICATE, "the page exists with other content")
        default = RESIDENCY[draft.type].pin
        pin = default if draft.pin is None else draft.pin
        if default is Pin.HARD and pin is not Pin.HARD:
            raise _No(ReasonCode.PIN_VIOLATION, f"a {draft.type} page is pinned hard")
        if draft.expires_at is not None and draft.expires_at <= self._now:
            raise _No(ReasonCode.SCHEMA, "the page expires before it is written")
        page = Page(
            id=entry.page_id,
            version=1,
            kind=draft.kind,
            type=draft.type,
            scope=self._scope,
            state=draft.state,
            pin=pin,
            content=entry.content,
            text=draft.text,
            provenance=draft.provenance,
            importance=draft.importance,
            tags=draft.tags,
            parent=draft.parent,
            session=draft.session,
            created_at=draft.created_at or self._now,
            updated_at=self._now,
            expires_at=draft.expires_at,
            author=self._by.name,
            hidden=False,
            forms=forms,
        )
        return page, True

    def _same(self, entry: Entry, existing: Page) -> bool:
        """Whether the page has, or began with, the content that the entry brings."""
        draft = entry.draft
        if draft is None or (draft.kind, draft.type) != (existing.kind, existing.type):
            return False
        if draft.text == existing.text and entry.content == existing.content:
            return True
        if existing.version == 1:
            return False
        first = self._view.versions(existing.id, 1)
        return bool(first) and draft.text == first[0].text and entry.content == first[0].content

    def _target(self, entry: Entry) -> Page:
        head = self._heads.get(entry.page_id)
        if head is None:
            raise _No(ReasonCode.STALE_VERSION, f"expected version {entry.base}, there is no such page")
        if not self._by.may(head.scope) or not within(head.scope, self._scope):
            raise _No(ReasonCode.SCOPE_DENIED, f"the page does not lie in {self._scope}")
        if head.expired(self._now):
            raise _No(ReasonCode.STALE_VERSION, "the page has expired")
        if head.hidden:
            raise _No(ReasonCode.STALE_VERSION, "the page is hidden")
        return head

    def _merge(self, entry: Entry, head: Page) -> Page:
        if entry.base == head.version:
            base = head
        else:
            found = self._view.versions(head.id, entry.base) if 0 < entry.base < head.version else []
            if not found:
                raise _No(ReasonCode.STALE_VERSION, f"read version {entry.base}, found {head.version}")
            base = found[0]
        ours: dict[str, JsonValue] = dict(entry.content)
        conflicts = [name for name in ours if _conflict(base.content, head.content, name, ours[name])]
        text = head.text
        if entry.text is not None:
            if head.text not in (base.text, entry.text):
                conflicts.append(_TEXT)
            text = entry.text
        conflicts += _conflicting_change(base, head, entry.change)
        if conflicts:
            detail = (
                f"read version {entry.base}, found {head.version}: both changed {', '.join(sorted(conflicts)[:8])}"
            )
            raise _No(ReasonCode.STALE_VERSION, detail)
        return self._next(head, {**head.content, **ours}, text, entry.change)

    def _replace(self, entry: Entry, head: Page) -> Page:
        if entry.base != head.version:
            raise _No(ReasonCode.STALE_VERSION, f"expected version {entry.base}, found {head.version}")
        text = head.text if entry.text is None else entry.text
        lost = set(head.content) - set(entry.content)
        if head.text and not text:
            lost.add(_TEXT)
        if lost := lost - entry.drop:
            raise _No(ReasonCode.DESTRUCTIVE_OP, f"drops {', '.join(sorted(lost)[:8])} without naming it in `drop`")
        return self._next(head, entry.content, text, entry.change)

    def _next(self, head: Page, content: Mapping[str, JsonValue], text: str, change: Change) -> Page:
        references = tuple(dict.fromkeys((*head.provenance.references, *change.references)))
        page = replace(
            head,
            content=content,
            text=text,
            provenance=Provenance(head.provenance.source, references),
            state=head.state if change.state is None else change.state,
            pin=head.pin if change.pin is None else change.pin,
            importance=head.importance if change.importance is None else change.importance,
            tags=head.tags if change.tags is None else change.tags,
            expires_at=head.expires_at if change.expires_at is None else change.expires_at,
        )
        if page == head:
            return head
        content_json = canonical(content)
        size = len(content_json.encode()) + len(text.encode())
        if size > self._limits.page_bytes:
            raise _No(ReasonCode.TOO_LARGE, f"{size} bytes, the limit is {self._limits.page_bytes}")
        subject = Subject(
            head.id,
            head.version + 1,
            head.kind,
            head.type,
            head.scope,
            page.state,
            content,
            text,
            head.created_at.isoformat(timespec="seconds"),
        )
        if problem := self._representer.unfit(subject):
            raise _No(ReasonCode.SCHEMA, problem)
        return replace(
            page,
            version=head.version + 1,
            # A clock that went backwards does not make a newer version look older.
            updated_at=max(self._now, head.updated_at),
            author=self._by.name,
            forms=self._representer.represent(subject, content_json),
        )

    def _check_policy(self, head: Page, page: Page) -> None:
        if head.pin is Pin.HARD and page.pin is not Pin.HARD:
            raise _No(ReasonCode.PIN_VIOLATION, "a hard pin is lowered only by maintenance")
        if head.pin is Pin.HARD and page.expires_at is not None and head.expires_at is None:
            raise _No(ReasonCode.PIN_VIOLATION, "a hard-pinned page is given an end only by maintenance")


def _conflict(base: Mapping[str, JsonValue], head: Mapping[str, JsonValue], name: str, ours: JsonValue) -> bool:
    """Whether theirs and ours both changed the field, to different values."""
    theirs = head.get(name)
    return (theirs != base.get(name) or (name in head) != (name in base)) and theirs != ours


def _conflicting_change(base: Page, head: Page, change: Change) -> list[str]:
    pairs = (
        ("state", base.state, head.state, change.state),
        ("pin", base.pin, head.pin, change.pin),
        ("importance", base.importance, head.importance, change.importance),
        ("tags", base.tags, head.tags, change.tags),
        ("expires_at", base.expires_at, head.expires_at, change.expires_at),
    )
    return [name for name, old, theirs, ours in pairs if ours is not None and theirs not in (old, ours)]


def digest_of_batch(scope: str, entries: Sequence[Entry]) -> str:
    """What a batch asks for, as one digest: the same request is the same digest, also with generated ids."""
    parts: list[JsonValue] = [
        [
            entry.op.value,
            "" if entry.generated else entry.page_id,
            digest_of(entry.content_json),
            digest_of(entry.text or ""),
            str(entry.base),
        ]
        for entry in entries
    ]
    return digest_of(scope + canonical(parts))
