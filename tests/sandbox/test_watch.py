"""The loop by itself, with a job that takes its time to die."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import ExitStack

import pytest

from instar.sandbox.protocol import Ending, Limits
from instar.sandbox.watch import Ends, Stuck, Watch

LIMITS = Limits(output_bytes=1000, wall_seconds=5)


class Slow:
    """A job of threads and pipes: when it is killed it first goes on for a while."""

    def __init__(self, stack: ExitStack) -> None:
        self.out, self._out = os.pipe()
        self.error, self._error = os.pipe()
        self.gone, self._gone = os.pipe()
        self.control, self._control = socket.socketpair()
        self._killed = threading.Event()
        for descriptor in (self.out, self.error, self.gone):
            stack.callback(os.close, descriptor)
        stack.callback(self.control.close)
        self.ends = Ends(self.out, self.error, self.control, self.gone)

    def kill(self) -> None:
        self._killed.set()

    def run(self, flood: int, last: bytes, word: bytes = b"") -> None:
        def job() -> None:
            self._control.sendall(b"ready\n")
            self._control.recv(1000)
            for _ in range(flood):
                os.write(self._error, b"x" * 1000)
            self._killed.wait(10)
            os.write(self._out, last)
            self._control.sendall(word)
            time.sleep(0.2)
            self._control.close()
            for descriptor in (self._out, self._error, self._gone):
                os.close(descriptor)

        self._thread = threading.Thread(target=job)
        self._thread.start()

    def join(self) -> None:
        self._thread.join()


def test_nothing_is_taken_of_what_a_killed_job_still_writes():
    with ExitStack() as stack:
        job = Slow(stack)
        job.run(flood=20, last=b"too late")
        watch = Watch(job.ends, LIMITS, job.kill)
        stack.callback(watch.close)
        assert watch.until_ready(5)
        seen = watch.run(b"go\n\n")
        job.join()
    assert (seen.ending, len(seen.stderr), bytes(seen.stdout)) == (Ending.OUTPUT, 1000, b"")


def test_what_a_job_said_before_it_ended_is_kept():
    with ExitStack() as stack:
        job = Slow(stack)
        job.kill()
        job.run(flood=1, last=b"in time", word=b"exit 3\n")
        watch = Watch(job.ends, LIMITS, job.kill)
        stack.callback(watch.close)
        assert watch.until_ready(5)
        seen = watch.run(b"go\n\n")
        job.join()
    assert (seen.ending, seen.end, bytes(seen.stdout), len(seen.stderr)) == (None, ("exit", 3), b"in time", 1000)


def test_a_job_that_will_not_go_is_the_sandboxs_failure(monkeypatch):
    monkeypatch.setattr("instar.sandbox.watch.DRAIN_SECONDS", 0.2)
    with ExitStack() as stack:
        job = Slow(stack)
        watch = Watch(job.ends, Limits(wall_seconds=0.2), lambda: None)
        stack.callback(watch.close)
        job.run(flood=0, last=b"")
        assert watch.until_ready(5)
        with pytest.raises(Stuck):
            watch.run(b"go\n\n")
        job.kill()
        job.join()
