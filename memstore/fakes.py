"""Principals, drafts and a clock for tests."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from instar.memstore import (
    PageDraft,
    PageType,
    Principal,
    ReasonCode,
    Receipt,
    Rejected,
    Store,
)

ALICE = Principal("alice", ("local",))
BOB = Principal("bob", ("local/desk/b", "other"))
DESK = "local/desk"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
GITHUB = "ghp_" + "a1B2c3D4" * 4 + "wxyz"


class FakeClock:
    """A clock that a test moves by hand, also backwards."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        """The time that the test set."""
        return self.now


def step(**changes: object) -> PageDraft:
    """A draft of an evidence page; every field can be set."""
    fields: dict[str, object] = {"kind": "step", "type": PageType.EVIDENCE, "content": {"n": 1}} | changes
    return PageDraft(**fields)  # type: ignore[arg-type]


def write(
    store: Store, *drafts: PageDraft, by: Principal = ALICE, scope: str = DESK, key: str | None = None
) -> Receipt:
    """Append the drafts in one batch."""
    with store.writeback(by, scope=scope, key=key) as batch:
        for draft in drafts:
            batch.append(draft)
    return batch.receipt


def codes(error: pytest.ExceptionInfo[Rejected]) -> list[ReasonCode]:
    """The reasons of a rejection, in order."""
    return [rejection.code for rejection in error.value.rejections]
