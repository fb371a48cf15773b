"""Stores that need no server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from instar.memstore import Store, open_store


@pytest.fixture(params=["memory:", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty store in memory, and one in a file."""
    address = request.param if request.param == "memory:" else f"sqlite:///{tmp_path / 'store.db'}"
    with open_store(address) as store:
        yield store
