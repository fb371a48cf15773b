"""The choice of a back end."""

from __future__ import annotations

import os

import pytest

from instar.sandbox.backends import BACKENDS, open_sandbox
from instar.sandbox.errors import SandboxUnavailable


@pytest.mark.parametrize("name", sorted(BACKENDS))
def test_every_back_end_is_found_by_its_name(name):
    assert open_sandbox(name).name == name


def test_an_unknown_name_says_what_there_is():
    with pytest.raises(SandboxUnavailable, match="bubblewrap, docker"):
        open_sandbox("none")


def test_the_first_that_works_is_taken(bubblewrap):
    assert open_sandbox().name == "bubblewrap"


def test_where_none_works_each_says_why_and_nothing_is_opened(monkeypatch, tmp_path):
    monkeypatch.setitem(BACKENDS, "bubblewrap", "instar.sandbox.docker:Docker")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")
    with pytest.raises(SandboxUnavailable, match="no back end works here") as refusal:
        open_sandbox()
    assert refusal.value.remedy.count("DOCKER_HOST") == 2


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(BACKENDS, "docker", "instar_library_that_is_not_there:Docker")
    with pytest.raises(SandboxUnavailable, match="instar_library_that_is_not_there"):
        open_sandbox("docker")


def test_the_client_of_docker_is_not_needed_for_bubblewrap():
    import subprocess
    import sys

    program = (
        "import sys, instar.sandbox.backends as b; b.open_sandbox('bubblewrap'); sys.exit('docker' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], env=os.environ, check=False).returncode == 0
