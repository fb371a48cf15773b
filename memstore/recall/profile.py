"""What is known of a user: preference pages, each with what it rests on. The user reads, corrects, deletes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import JsonValue

from instar.memstore.errors import InvalidRequest
from instar.memstore.pages import Page, PageDraft, PageType, Provenance, digest_of
from instar.memstore.scopes import Principal
from instar.memstore.store import Store

PROFILE = "profile"
_SUBJECT = re.compile(r"[\w .:-]{1,120}\Z")


@dataclass(frozen=True, slots=True)
class Trait:
    """One thing about the user: a style, a habit, a tolerance."""

    subject: str
    value: str
    page: str
    version: int
    evidence: tuple[str, ...]
    """Pages it rests on; none where the user said so."""
    stated_by: str
    since: datetime


class Profile:
    """The profile that is kept in one scope."""

    def __init__(self, store: Store, by: Principal, scope: str) -> None:
        self._store, self._by, self._scope = store, by, scope

    def traits(self) -> list[Trait]:
        """Everything that is held for true now, by subject.

        Raises:
            ScopeDenied: no grant covers the scope.
        """
        pages = self._store.find(self._by, scope=self._scope, kind=PROFILE, exact=True)
        return sorted((_trait(page) for page in pages), key=lambda trait: trait.subject)

    def state(self, subject: str, value: str, *, evidence: Sequence[str] = ()) -> Trait:
        """Hold something for true, in place of what was held before; the earlier value stays in the history.

        Raises:
            InvalidRequest: the subject is empty or too long.
            Rejected: the evidence does not resolve, or somebody else changed the same at this moment.
        """
        page_id = self._id(subject)
        content: dict[str, JsonValue] = {"subject": subject, "value": value}
        text = f"{subject}: {value}"
        before = self._store.get(self._by, page_id)
        if before is not None and before.hidden:
            self._store.maintenance(self._by).restore([page_id], reason="stated again")
        with self._store.writeback(self._by, scope=self._scope) as batch:
            if before is None:
                provenance = Provenance(f"stated by {self._by.name}", tuple(evidence))
                batch.append(
                    PageDraft(PROFILE, PageType.PREFERENCE, content, text=text, id=page_id, provenance=provenance)
                )
            else:
                gone = [name for name in before.content if name not in content]  # of one that was erased
                batch.replace(page_id, content, expect=before.version, text=text, drop=gone)
        page = self._store.get(self._by, page_id)
        if page is None:
            raise InvalidRequest(f"{subject!r} was not kept")
        return _trait(page)

    def delete(self, subject: str) -> bool:
        """Erase something from all versions, beyond recovery; False when it was not known."""
        page = self._store.get(self._by, self._id(subject))
        if page is None or page.hidden:
            return False
        self._store.maintenance(self._by).erase([page.id], reason=f"deleted by {self._by.name}")
        return True

    def _id(self, subject: str) -> str:
        if not _SUBJECT.match(subject):
            raise InvalidRequest("a subject is 1 to 120 letters, digits, blanks and .:-")
        return f"profile-{digest_of(f'{self._scope}|{subject.casefold()}')[:24]}"


def _trait(page: Page) -> Trait:
    return Trait(
        subject=str(page.content.get("subject", "")),
        value=str(page.content.get("value", "")),
        page=page.id,
        version=page.version,
        evidence=page.provenance.references,
        stated_by=page.author,
        since=page.updated_at,
    )
