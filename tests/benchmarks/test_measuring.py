"""The recorded data and the memory of a child process."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from benchmarks.data import recorded
from benchmarks.errors import ChildFailed, DataMissing
from benchmarks.memory import measure_memory

MB = 1_000_000


def test_recorded_data_is_found_through_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "set" / "one").mkdir(parents=True)
    monkeypatch.setenv("INSTAR_DATA", str(tmp_path))
    assert recorded("set/one") == tmp_path / "set" / "one"


def test_recorded_data_is_looked_for_beside_the_checkout_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INSTAR_DATA", raising=False)
    with pytest.raises(DataMissing) as missing:
        recorded("no-such-set")
    checkout = Path(__file__).resolve().parents[2]
    assert missing.value.path == checkout.parent / "shared" / "data" / "no-such-set"
    assert "set INSTAR_DATA" in str(missing.value)


def test_the_memory_of_a_child_is_its_own_and_not_that_of_its_parent() -> None:
    ballast = bytearray(300 * MB)
    ballast[::4096] = b"x" * len(ballast[::4096])
    small = measure_memory([sys.executable, "-c", "print('done')"])
    large = measure_memory([sys.executable, "-c", f"block = bytearray({200 * MB}); block[::4096] = block[::4096]"])
    assert small.stdout == "done\n"
    assert 1 * MB < small.peak_bytes < 60 * MB
    assert 200 * MB < large.peak_bytes < 270 * MB
    assert len(ballast) == 300 * MB


def test_a_child_that_fails_is_an_error_with_its_last_words() -> None:
    with pytest.raises(ChildFailed) as failed:
        measure_memory([sys.executable, "-c", "import sys; sys.exit('out of luck')"])
    assert failed.value.code == 1
    assert "out of luck" in str(failed.value)


def test_a_child_that_takes_too_long_is_ended_with_everything_it_started(tmp_path: Path) -> None:
    beat = tmp_path / "beat"
    script = f"import subprocess; subprocess.run(['sh', '-c', 'while :; do date >> {beat}; sleep 0.05; done'])"
    with pytest.raises(ChildFailed) as failed:
        measure_memory([sys.executable, "-c", script], timeout=1)
    assert failed.value.code is None
    written = beat.stat().st_size
    assert written > 0
    time.sleep(0.3)
    assert beat.stat().st_size == written
