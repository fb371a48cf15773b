"""Twenty nights in which something is killed end like twenty undisturbed ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.flows_soak import soak

NIGHTS = 20


@pytest.mark.soak
def test_nights_in_which_something_is_killed_end_like_undisturbed_ones(tmp_path: Path) -> None:
    soaked = soak(tmp_path, NIGHTS)
    assert soaked.differences == []
    assert soaked.nights == NIGHTS
    assert sum(soaked.killed.values()) > NIGHTS / 2
