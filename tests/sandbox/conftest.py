"""One probed sandbox for all."""

from __future__ import annotations

import os

import pytest

from instar.sandbox.bubblewrap import Bubblewrap
from instar.sandbox.errors import SandboxUnavailable

pytest.register_assert_rewrite("instar.sandbox.testing")


@pytest.fixture(scope="session")
def bubblewrap() -> Bubblewrap:
    sandbox = Bubblewrap()
    try:
        sandbox.probe()
    except SandboxUnavailable as error:
        if "bubblewrap" in os.environ.get("INSTAR_REQUIRE", ""):
            raise
        pytest.skip(f"bubblewrap: {error}")
    return sandbox
