"""The real sandbox, and a check that no process of a gate outlives it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from instar.sandbox.bubblewrap import Bubblewrap
from instar.sandbox.errors import SandboxUnavailable
from instar.sandbox.protocol import Sandbox


@pytest.fixture(scope="session")
def sandbox() -> Sandbox:
    backend = Bubblewrap()
    try:
        backend.probe()
    except SandboxUnavailable as unavailable:
        if "bubblewrap" in os.environ.get("INSTAR_REQUIRE", ""):
            raise
        pytest.skip(str(unavailable))
    return backend


def descendants() -> list[str]:
    parents: dict[int, tuple[int, str]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                name, _, rest = (folder / "stat").read_text().rpartition(")")
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents[int(folder.name)] = (int(rest.split()[1]), name)
    found = []
    for pid, (parent, name) in parents.items():
        above = parent
        while above in parents and above != os.getpid():
            above = parents[above][0]
        if above == os.getpid():
            found.append(f"{pid} {name}")
    return found


@pytest.fixture
def no_process_left() -> Iterator[None]:
    before = set(descendants())
    yield
    assert set(descendants()) <= before
