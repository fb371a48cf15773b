"""The bubblewrap back end: kernel namespaces, an allow-list of system calls, limits, and nothing of the host to see.

A job sees a plain `/usr` with the interpreter and its libraries, its own files at `/work` (read-only), `/tmp` in
memory, four devices, and no `/proc`: there is no way to name another process or a host path. It has no network, no
capabilities and an empty environment. Process 1 of its namespace is a launcher of ours: when it goes, because the job
is over or because this process is gone, the kernel ends everything else.

Where Instar runs as root, bwrap and the job run under an account that nobody else has: a way out would lead to one
that owns nothing, and the kernel counts its threads, which it does not for root.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Final

from pydantic import TypeAdapter, ValidationError

from instar.sandbox import jobs
from instar.sandbox.accounts import NUMBERS, Accounts
from instar.sandbox.bwrap import NAME, run_once
from instar.sandbox.errors import SandboxFailed, SandboxUnavailable
from instar.sandbox.host import diagnose
from instar.sandbox.isolation import NAMESPACES, PROBE, Observation, Outside, seen_from_outside
from instar.sandbox.layout import Placement
from instar.sandbox.protocol import Isolation, Job, JobResult

CONFINED: Final = "only named system calls"


class Bubblewrap:
    """Runs jobs in bubblewrap. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._isolation: Isolation | None = None
        self._drop = os.geteuid() == 0
        self._accounts = Accounts()

    @property
    def name(self) -> str:
        """The short name."""
        return NAME

    def probe(self) -> Isolation:
        """Observe what isolation is in force, by running a job that tries. The first answer is kept.

        Raises:
            SandboxUnavailable: this host cannot isolate; the error names the remedy.
            SandboxFailed: the probe itself broke.
        """
        with self._lock:
            if self._isolation is None:
                self._isolation = self._observe()
            return self._isolation

    def run(self, job: Job) -> JobResult:
        """Run the job to its end. No process, mount, descriptor or file of it outlives the call.

        Raises:
            InvalidJob: the job cannot be placed.
            SandboxUnavailable: this host cannot isolate.
            SandboxFailed: the sandbox broke; nothing is known about the code.
        """
        command = jobs.checked(job)
        self.probe()
        return self._run(job, command)

    def _run(
        self, job: Job, command: jobs.Command, before_orders: Callable[[int], None] = lambda _: None
    ) -> JobResult:
        if not self._drop:
            return run_once(Placement(job, command, None), before_orders)
        with self._accounts.lent() as account:
            return run_once(Placement(job, command, account), before_orders)

    def _observe(self) -> Isolation:
        """Where this process is root, try to give that up; a container may map too few accounts for it."""
        try:
            return self._attempt()
        except SandboxUnavailable:
            if not self._drop:
                raise
            self._drop = False
            return self._attempt()

    def _attempt(self) -> Isolation:
        job = Job({}, ("python", "-c", PROBE))
        outside: list[Outside] = []
        try:
            result = self._run(job, jobs.checked(job), lambda pid: outside.append(seen_from_outside(pid)))
        except SandboxFailed as failure:
            raise SandboxUnavailable(NAME, *diagnose(failure.reason)) from failure
        try:
            inside = Observation(succeeded=TypeAdapter(list[str]).validate_json(result.stdout))
        except ValidationError as error:
            said = (result.reason or result.stderr.decode(errors="replace"))[-500:]
            raise SandboxFailed(NAME, f"the probe did not answer: {said}") from error
        missing = [
            *inside.broken(),
            *(f"own {name} namespace" for name in NAMESPACES if name not in outside[0].apart),
        ]
        if self._drop and outside[0].account == 0:
            missing.append("an account without rights")
        if missing:
            raise SandboxUnavailable(NAME, f"not in force here: {', '.join(missing)}", diagnose("").remedy)
        account = _described(outside[0].account)
        return Isolation(NAME, (f"own {', '.join(NAMESPACES)} namespaces", *inside.held(), CONFINED, account))


def _described(account: int) -> str:
    if account == 0:
        return "root on the host, without capabilities"
    return "an account of its own on the host" if account in NUMBERS else "an ordinary account on the host"
