"""Whether a background process lives."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from instar.flows.daemon import Daemon

DYING = """
import ctypes, fcntl, os, sys, threading, time
lock = open(sys.argv[1], "w")
fcntl.flock(lock, fcntl.LOCK_EX)
lock.write(str(os.getpid()))
lock.flush()

def rest():
    time.sleep(1)
    os._exit(0)

threading.Thread(target=rest).start()
print("held", flush=True)
ctypes.CDLL(None).syscall(int(sys.argv[2]), 0)  # ends this thread, and nothing else
"""
EXIT = {"x86_64": "60", "aarch64": "93"}


@pytest.mark.skipif(
    platform.machine() not in EXIT, reason="the number of a system call is known for two machines only"
)
def test_a_killed_process_whose_threads_still_hold_the_lock_is_waited_for(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "some.alive", tmp_path / "some.log")
    command = [sys.executable, "-c", DYING, str(daemon.lock), EXIT[platform.machine()]]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        status = Path(f"/proc/{process.pid}/status")
        while "\nState:\tZ" not in status.read_text():
            pass
        assert process.poll() is None, "it has not ended"
        assert daemon.alive() is False
