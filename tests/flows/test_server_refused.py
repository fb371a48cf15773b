"""A machine on which no server can be started: it is told at once what is missing, and nothing is left behind."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from instar.flows.server import Server

FAKE = Path(__file__).with_name("fake_serving.py")
UNREACHABLE = """
import sys
from pathlib import Path
from instar.flows.errors import LoopbackDown
from instar.flows.server import Server
try:
    Server(Path(sys.argv[1]), command=[sys.executable, sys.argv[2], "answers"]).start()
except LoopbackDown as error:
    print(error)
"""


def test_a_machine_that_cannot_reach_itself_says_so_instead_of_waiting_for_a_server(tmp_path: Path) -> None:
    home = tmp_path / "home"
    words = ["unshare", "--user", "--map-root-user", "--net", sys.executable, "-c", UNREACHABLE, str(home), str(FAKE)]
    if shutil.which("unshare") is None or subprocess.run([*words[:4], "true"], check=False).returncode:
        pytest.skip("a network of its own needs unshare and user namespaces")
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    assert "unreachable" in said
    assert "ip link set lo up" in said
    assert Server(home).status().state == "stopped"


ON_A_FULL_DISK = """
import sys
from pathlib import Path
from instar.flows.errors import HomeFull
from instar.flows.server import Server
home = Path(sys.argv[1]) / "home"
home.mkdir()
for left in (0, 40_000):
    filling = home / "filling"
    with filling.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            file.truncate(file.tell() - left)
    try:
        Server(home, command=[sys.executable, sys.argv[2], "ends"]).start()
    except HomeFull as error:
        print(error)
    filling.unlink()
Server(home).stop()
"""


def test_a_full_disk_is_named_before_and_while_the_server_starts(on_a_small_disk: Callable[..., str]) -> None:
    said = on_a_small_disk(ON_A_FULL_DISK, str(FAKE)).splitlines()
    assert len(said) == 2
    assert all("free some space" in line for line in said)
