"""Accounts under which jobs run where Instar is root: numbers that nobody has, each in a user namespace of its own.

Inside such a namespace a job is nobody. It can have no namespaces within. One belongs to one job at a time, because
the kernel counts threads per namespace; made once, it serves job after job. It is made before bwrap starts, not while
it waits: a bwrap that loses its parent while it waits for its accounts stays forever.

Root is part of the namespace only where something to show to a job lies in a folder that others may not enter: bwrap,
which has capabilities in there, can then walk there, and drops them before the job begins.
"""

from __future__ import annotations

import os
import random
import stat
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from instar.sandbox.errors import SandboxUnavailable
from instar.sandbox.interpreter import interpreter

NOBODY: Final = 65534
NUMBERS: Final = range(2_147_400_000, 2_147_480_000)
"""Above the numbers that hosts give to people, services and containers."""
KEPT: Final = 8

# Becomes the account, leaves for a namespace of its own, says so, and stays until told to go or its parent is gone.
MAKER: Final = """
import ctypes, os, sys
library, account = ctypes.CDLL(None), int(sys.argv[1])
os.setgroups([])
os.setresgid(account, account, account)
os.setresuid(account, account, account)
if library.unshare(0x10000000) == 0:
    with open("/proc/sys/user/max_user_namespaces", "w") as switch:
        switch.write("0")
    os.write(1, b"x")
    os.read(0, 1)
"""


@dataclass(frozen=True, slots=True)
class Account:
    """An account's number on the host, and a descriptor of its user namespace."""

    number: int
    namespace: int


class Accounts:
    """A few accounts. Safe to share between threads."""

    def __init__(self) -> None:
        self._free: list[Account] = []
        self._lock = threading.Lock()
        weakref.finalize(self, _close_all, self._free)

    @contextmanager
    def lent(self) -> Iterator[Account]:
        """An account that no other job has. One whose job went wrong is not used again.

        Raises:
            SandboxUnavailable: none can be made here.
        """
        with self._lock:
            account = self._free.pop() if self._free else None
        account = account or _make(random.SystemRandom().choice(NUMBERS))
        try:
            yield account
        except BaseException:
            os.close(account.namespace)
            raise
        with self._lock:
            if len(self._free) < KEPT:
                self._free.append(account)
                return
        os.close(account.namespace)


def _close_all(accounts: list[Account]) -> None:
    while accounts:
        os.close(accounts.pop().namespace)


def _make(number: int) -> Account:
    """Make a namespace; the process in which it began is gone when this returns.

    Raises:
        SandboxUnavailable: the kernel, or the mapping of this container, does not allow it.
    """
    executable = getattr(sys, "_base_executable", None) or sys.executable
    loader = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    shown = [*(place.host for place in interpreter().places), Path(sys.prefix), Path.home()]
    root = "" if all(_open_to_all(path) for path in shown) else "0 0 1\n"
    with subprocess.Popen(
        [executable, "-I", "-S", "-c", MAKER, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, env=loader,
    ) as maker:  # fmt: skip
        try:
            if maker.stdout is None or maker.stdout.read(1) != b"x":
                raise OSError("no user namespace can be made")
            for kind in ("uid", "gid"):
                Path(f"/proc/{maker.pid}/{kind}_map").write_text(f"{root}{NOBODY} {number} 1\n")
            return Account(number, os.open(f"/proc/{maker.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            maker.kill()
            raise SandboxUnavailable(
                "bubblewrap", f"root cannot be given up here: {error}", "Run Instar as an ordinary account."
            ) from error


def _open_to_all(path: Path) -> bool:
    """Whether any account can walk to the path and read it."""
    if not path.exists():
        return True
    folders = [path.resolve(), *path.resolve().parents] if path.is_dir() else path.resolve().parents
    readable = path.stat().st_mode & stat.S_IROTH
    return bool(readable) and all(folder.stat().st_mode & stat.S_IXOTH for folder in folders)
