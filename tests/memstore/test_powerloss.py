"""Power losses, simulated from what a writer really wrote and synchronised."""

import os
from collections.abc import Sequence

import pytest

from benchmarks.errors import CannotLoad
from benchmarks.store_powerloss import Event, lost_after_power_losses, record

REQUIRED = "strace" in os.environ.get("INSTAR_REQUIRE", "")


@pytest.fixture(scope="module")
def events() -> Sequence[Event]:
    """What a writer of a few batches does to its files."""
    try:
        return record(8)
    except CannotLoad as error:
        if REQUIRED:
            raise
        pytest.skip(f"system calls cannot be recorded: {error}")


def test_a_power_loss_at_any_instant_loses_nothing_acknowledged_and_leaves_no_batch_half_there(
    events: Sequence[Event],
) -> None:
    assert sum(event.call == "acknowledge" for event in events) == 8
    assert lost_after_power_losses(events, 60) == 0


def test_the_simulation_notices_a_writer_that_does_not_synchronise(events: Sequence[Event]) -> None:
    careless = [event for event in events if (event.call, event.name) != ("sync", "store.db-wal")]
    assert len(careless) < len(events)
    assert lost_after_power_losses(careless, 30) > 0
