"""The contract suite: every back end passes it, by subclassing `StoreContract` with its address."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from instar.memstore import (
    Limits,
    Store,
    open_store,
)
from instar.memstore.fakes import ALICE, BOB, DESK, GITHUB, NOON, FakeClock, codes, step, write
from instar.memstore.testing_care import CareContract
from instar.memstore.testing_reads import ReadingContract
from instar.memstore.testing_writes import WritingContract

__all__ = ["ALICE", "BOB", "DESK", "GITHUB", "NOON", "FakeClock", "StoreContract", "codes", "step", "write"]


class StoreContract(WritingContract, ReadingContract, CareContract):
    """What `open_store` promises, whatever is behind it."""

    @pytest.fixture
    def address(self) -> str:
        raise NotImplementedError

    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def store(self, address: str, clock: FakeClock) -> Iterator[Store]:
        limits = Limits(page_bytes=50_000, batch_entries=2_000, references=50, tags=8)
        with open_store(address, limits=limits, clock=clock) as store:
            yield store
