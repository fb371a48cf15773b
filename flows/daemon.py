"""A background process of a home that cannot be lost: alive exactly as long as it holds its lock.

The lock is an open file, locked by the starter, inherited by the process and released by the kernel when the last
holder ends, however it ends. So there is no stale pid to misread after a SIGKILL or a reboot; the pid inside the
file is only believed while the lock is held.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from instar.flows.errors import CannotEnd

LOG_LIMIT = 5_000_000
PRIVATE = 0o600
POLL = 0.05
KILL_GRACE = 5.0


@dataclass(frozen=True, slots=True)
class Daemon:
    """One background process: the file it holds locked while it lives, and the log it writes to."""

    lock: Path
    log: Path

    @contextmanager
    def claim(self) -> Iterator[int | None]:
        """Take the lock, to start the process: the descriptor to hand to `spawn`, or None while one is alive."""
        descriptor = os.open(self.lock, os.O_RDWR | os.O_CREAT, PRIVATE)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
            else:
                os.ftruncate(descriptor, 0)
                yield descriptor
        finally:
            # Closing, not unlocking: a process that was started meanwhile keeps the lock.
            os.close(descriptor)

    def spawn(
        self,
        claimed: int,
        command: Sequence[str],
        *,
        given: str,
        keep: Sequence[int],
        environment: Mapping[str, str],
        directory: Path,
    ) -> int:
        """Start `command`, which has to call `detach`; return the pid of what it became.

        `given` is its standard input, so that secrets are in no argument and no environment; `keep` are further
        descriptors that it inherits.

        Raises:
            CalledProcessError: it failed before it was detached; its words are in the log.
        """
        with os.fdopen(os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE), "ab") as log:
            started = subprocess.run(
                [*command, str(claimed)],
                input=given.encode(),
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=(claimed, *keep),
                env=dict(environment),
                cwd=directory,
                check=True,
            )
        return int(started.stdout)

    def alive(self) -> bool:
        """Whether the process lives (or is being started). One that is dying is waited for."""
        deadline = time.monotonic() + KILL_GRACE
        while (held := self._held()) and self._dying() and time.monotonic() < deadline:
            time.sleep(POLL)
        return held

    def _dying(self) -> bool:
        """Whether it was killed, and some of its threads have not noticed yet: they hold the lock until then."""
        written = self.lock.read_text(encoding="ascii").strip()
        try:
            return written.isdigit() and "\nState:\tZ" in Path(f"/proc/{written}/status").read_text(errors="replace")
        except OSError:
            return False

    def _held(self) -> bool:
        try:
            descriptor = os.open(self.lock, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def age(self) -> float:
        """Seconds since the process was started; meaningless while none is alive."""
        return max(0.0, time.time() - self.lock.stat().st_mtime)

    def pid(self) -> int | None:
        """The pid of the living process; None where none is alive, or it has not yet written it."""
        if not self.alive():
            return None
        written = self.lock.read_text(encoding="ascii").strip()
        return int(written) if written.isdigit() else None

    def end(self, grace: float) -> bool:
        """End the process and its whole group: politely, and after `grace` seconds by force.

        Returns False where none was alive.

        Raises:
            CannotEnd: it is still there.
        """
        if not self.alive():
            return False
        for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, KILL_GRACE)):
            deadline = time.monotonic() + patience
            while (pid := self.pid()) is None and self.alive() and time.monotonic() < deadline:
                time.sleep(POLL)
            if pid is not None:
                _signal_group(pid, number)
            while self.alive() and time.monotonic() < deadline:
                time.sleep(POLL)
            if not self.alive():
                if pid is not None:
                    _signal_group(pid, signal.SIGKILL)  # whatever it started and did not end itself
                return True
        raise CannotEnd(self.pid(), f"{self.lock} is still held; end it by hand")

    def last_lines(self, since: int, count: int = 20) -> str:
        """The end of what was logged after the offset `since`."""
        try:
            with self.log.open("rb") as log:
                size = log.seek(0, os.SEEK_END)
                log.seek(max(since, size - 64_000))
                text = log.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.rstrip().splitlines()[-count:])

    def turn_log(self) -> int:
        """Set a large log aside under the same name with `.1`; returns the offset at which the next line is logged.

        For a starter: a process that runs goes on writing where it was.
        """
        size = self.log.stat().st_size if self.log.exists() else 0
        if size <= LOG_LIMIT:
            return size
        self.log.replace(self.log.with_name(f"{self.log.name}.1"))
        return 0


def detach(lock: int) -> None:
    """Leave the starter: a session of one's own, no terminal, standard output in the log, files for the owner only.

    For the started command, before it imports much: the original process tells the new one's pid on standard output
    and ends; the call returns in the new one only. Standard error has to be the log already.
    """
    if pid := os.fork():
        os.write(1, b"%d\n" % pid)
        os._exit(0)
    os.setsid()
    os.umask(0o077)
    os.ftruncate(lock, 0)
    os.pwrite(lock, b"%d\n" % os.getpid(), 0)
    os.set_inheritable(lock, False)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)


def _signal_group(pid: int, number: signal.Signals) -> None:
    """Signal the group that `pid` leads.

    Raises:
        CannotEnd: it belongs to another user.
    """
    with contextlib.suppress(ProcessLookupError):
        try:
            os.killpg(pid, number)
            # A process that was stopped (SIGSTOP, a debugger) sees the signal only once it runs again.
            os.killpg(pid, signal.SIGCONT)
        except PermissionError:
            raise CannotEnd(pid, "it belongs to another user") from None
