"""Using up what belongs to everybody. Each is bounded, a little above the limits of the suite."""

# ruff: noqa: PTH118, PTH123

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
import tempfile
import threading
import time
from typing import Any

Lure = dict[str, Any]
MIB = 1024 * 1024


def fork_bomb(lure: Lure) -> object:
    """Start many processes."""
    children = []
    for _ in range(100):
        child = os.fork()
        if child == 0:
            time.sleep(1)
            os._exit(0)
        children.append(child)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return True


def thread_bomb(lure: Lure) -> object:
    """Start many threads."""
    stop = threading.Event()
    for _ in range(lure["threads"] + 50):
        threading.Thread(target=stop.wait, daemon=True).start()
    return True


def raw_thread_bomb(lure: Lure) -> object:
    """Start many threads with tiny stacks, so that their memory does not count."""
    threading.stack_size(32768)
    stop = threading.Event()
    for _ in range(lure["threads"] + 50):
        threading.Thread(target=stop.wait, daemon=True).start()
    return True


def memory_bomb(lure: Lure) -> object:
    """Allocate more than allowed."""
    return len(bytearray(lure["memory_bytes"] + 64 * MIB)) > 0


def memory_bomb_in_pieces(lure: Lure) -> object:
    """Allocate more than allowed, little by little."""
    held = [b"x" * MIB for _ in range(lure["memory_bytes"] // MIB + 64)]
    return len(held) > 0


def shared_mapping(lure: Lure) -> object:
    """Map more shared memory than allowed."""
    return len(mmap.mmap(-1, lure["memory_bytes"] + 64 * MIB)) > 0


def large_file(lure: Lure) -> object:
    """Write one file that is too large."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with tempfile.TemporaryFile() as file:
        for _ in range(lure["file_bytes"] // MIB + 2):
            file.write(b"x" * MIB)
        file.flush()
    return True


def sparse_file(lure: Lure) -> object:
    """Make a file look huge."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with tempfile.TemporaryFile() as file:
        file.truncate(64 * 1024 * MIB)
    return True


def many_files(lure: Lure) -> object:
    """Fill the temporary folder with many allowed files."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(lure["tmp_bytes"] // MIB + 8):
            with open(os.path.join(folder, str(number)), "wb") as file:
                file.write(b"x" * MIB)
    return True


def empty_files(lure: Lure) -> object:
    """Make many files without a byte: each takes the kernel's own memory, which no size counts."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(lure["tmp_files"] * 30):
            os.close(os.open(os.path.join(folder, str(number)), os.O_CREAT | os.O_WRONLY))
    return True


def many_descriptors(lure: Lure) -> object:
    """Open more files than allowed."""
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range(lure["descriptors"] + 8)]
    return len(held) > 0


def many_pipes(lure: Lure) -> object:
    """Hold kernel buffers, which no memory limit counts."""
    held = [os.pipe() for _ in range(lure["descriptors"])]
    return len(held) > 0


def locked_memory(lure: Lure) -> object:
    """Keep memory from being swapped out."""
    return bool(ctypes.CDLL(None, use_errno=True).mlockall(1) == 0)


def output_flood(lure: Lure) -> object:
    """Print too much."""
    for _ in range(lure["output_bytes"] // 1000 * 5):
        sys.stdout.write("x" * 1000)
    sys.stdout.flush()
    return True


def error_flood(lure: Lure) -> object:
    """Print too much to the other stream."""
    for _ in range(lure["output_bytes"] // 1000 * 5):
        sys.stderr.write("x" * 1000)
    sys.stderr.flush()
    return True


def sleep_too_long(lure: Lure) -> object:
    """Wait beyond the clock."""
    time.sleep(lure["wall_seconds"] + 0.5)
    return True


def sleep_deaf_to_signals(lure: Lure) -> object:
    """Wait beyond the clock, ignoring all requests to stop."""
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        signal.signal(number, signal.SIG_IGN)
    time.sleep(lure["wall_seconds"] + 0.5)
    return True


def busy_too_long(lure: Lure) -> object:
    """Use more processor time than allowed."""
    while time.process_time() < lure["cpu_seconds"] + 0.5:
        pass
    return True


def busy_in_threads(lure: Lure) -> object:
    """Use more processor time than allowed, in pieces, deaf to the warning."""
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    end = lure["cpu_seconds"] + 0.5

    def work() -> None:
        while time.process_time() < end:
            sum(range(10000))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return True


def core_dump(lure: Lure) -> object:
    """Leave a memory image behind; true when the limit would allow one."""
    import resource  # noqa: PLC0415 — not there on every system

    return resource.getrlimit(resource.RLIMIT_CORE)[1] != 0
