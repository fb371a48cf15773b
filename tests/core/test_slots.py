from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from instar.core.slots import Slots


class Waited(Exception):
    pass


def waiting(_: float) -> None:
    raise Waited


def test_whoever_finds_every_place_taken_waits(tmp_path: Path) -> None:
    slots = Slots(tmp_path / "slots", 2, sleep=waiting)
    with slots() as first:
        with slots() as second:
            assert {first, second} == {0, 1}
            with pytest.raises(Waited), slots():
                raise AssertionError("there was a third place")
        with slots() as again:
            assert again == second


def test_a_place_is_given_back_after_an_error_and_after_a_death(tmp_path: Path) -> None:
    slots = Slots(tmp_path, 1, sleep=waiting)
    with pytest.raises(KeyError), slots():
        raise KeyError
    dying = f"""
import os
from pathlib import Path
from instar.core.slots import Slots
with Slots(Path({str(tmp_path)!r}), 1)():
    os._exit(0)
"""
    subprocess.run([sys.executable, "-c", dying], check=True, timeout=60)
    with slots() as number:
        assert number == 0


def test_who_has_no_patience_left_is_told_how_long_it_waited_for_which_places(tmp_path: Path) -> None:
    slots = Slots(tmp_path, 2, patience=0.1)
    with slots(), slots(), pytest.raises(TimeoutError, match=r"no place among 2 calls within 0\.1 s"), slots():
        raise AssertionError("there was a third place")
    with slots() as free:
        assert free == 0
