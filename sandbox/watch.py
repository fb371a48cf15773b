"""Watches one job until it is over: output with a bound, the broker's channel, the clock, and the end.

One loop, nothing kept beyond the limits. What it watches is described by `Ends`; how a job is killed and
what its exit means is the back end's.
"""

from __future__ import annotations

import os
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from instar.sandbox.broker import Conversation, ProtocolViolation
from instar.sandbox.protocol import Ending, Limits

CHUNK: Final = 65536
DRAIN_SECONDS: Final = 5.0
"""How long a killed or exited job's channels may take to close before the sandbox counts as broken."""
LATE_SECONDS: Final = 5.0
"""How late this loop may notice that the time is up. It waits for nothing but tools, so more means that this process
did not run; then nothing can be said of how long the job did."""


class Stuck(Exception):
    """The job could not be ended, its channels never closed, or nobody was watching."""


@dataclass(slots=True)
class Ends:
    """The trusted side's ends of a job's channels. `exited` becomes readable when the job is gone."""

    stdout: int
    stderr: int
    control: socket.socket
    exited: int
    broker: socket.socket | None = None
    conversation: Conversation | None = None


@dataclass(slots=True)
class Observed:
    """What the loop saw. `ending` is None when the job ended by itself."""

    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
    ending: Ending | None = None
    reason: str = ""
    end: tuple[str, int] | None = None
    """How the job ended as the launcher says: `exit` or `signal` and a number, `cpu`, `memory` or `files`."""
    seconds: float = 0.0


class Watch:
    """The loop. `kill` must end the whole job at once and return without waiting; it may be called twice."""

    def __init__(self, ends: Ends, limits: Limits, kill: Callable[[], None]) -> None:
        self._ends, self._limits, self._kill = ends, limits, kill
        self._seen = Observed()
        self._selector = selectors.DefaultSelector()
        self._outgoing = bytearray()
        self._orders = bytearray()
        self._control_text = bytearray()
        self._gone = False
        self._deadline = 0.0
        self._overdue = False

    def until_ready(self, seconds: float) -> bool:
        """Wait until the launcher inside reports; False when the job is gone or silent instead."""
        self._register()
        deadline = time.monotonic() + seconds
        while not self._gone and b"ready\n" not in self._control_text and time.monotonic() < deadline:
            self._step(deadline)
        return b"ready\n" in self._control_text

    def run(self, orders: bytes) -> Observed:
        """Give the orders, and watch until everything of the job is gone.

        Raises:
            Stuck: it would not go.
        """
        begun = time.monotonic()
        self._deadline = deadline = begun + self._limits.wall_seconds
        self._send_control(orders)
        if self._ends.conversation is not None:
            self._queue(self._ends.conversation.open())
        while not self._gone:
            late = time.monotonic() - deadline
            if late >= 0 or self._overdue:
                if late > LATE_SECONDS and not self._overdue:
                    raise Stuck("this machine was suspended while a job ran, or far too busy to watch it")
                self._end(Ending.TIMED_OUT, f"more than {self._limits.wall_seconds:g} s")
                break
            if self._seen.ending is not None:
                break
            self._step(deadline)
        self._seen.seconds = time.monotonic() - begun
        return self.finish()

    def finish(self) -> Observed:
        """End whatever is left, and wait for every channel that is still watched to close.

        Raises:
            Stuck: it would not go.
        """
        self._kill()
        if self._ends.conversation is not None:
            self._ends.conversation.job_is_over = True
        deadline = time.monotonic() + DRAIN_SECONDS
        while self._selector.get_map():
            if time.monotonic() >= deadline:
                raise Stuck("a job's channels did not close")
            self._step(deadline)
        self._close_conversation()
        self._seen.end = _end(self._control_text.decode("ascii", errors="replace"))
        return self._seen

    def close(self) -> None:
        """Stop watching. The descriptors themselves belong to the caller."""
        self._selector.close()

    def _register(self) -> None:
        ends = self._ends
        self._selector.register(ends.stdout, selectors.EVENT_READ, self._read_stdout)
        self._selector.register(ends.stderr, selectors.EVENT_READ, self._read_stderr)
        self._selector.register(ends.exited, selectors.EVENT_READ, self._exited)
        self._selector.register(ends.control, selectors.EVENT_READ, self._read_control)
        ends.control.setblocking(False)
        if ends.broker is not None:
            ends.broker.setblocking(False)
            self._selector.register(ends.broker, selectors.EVENT_READ, self._talk)

    def _step(self, deadline: float) -> None:
        for key, events in self._selector.select(max(0.0, deadline - time.monotonic())):
            if key.fileobj in self._selector.get_map():
                key.data(events)

    def _end(self, ending: Ending, reason: str) -> None:
        """Kill the job, unless it is already over for another reason: the first reason stays.

        From here on nothing it writes is taken. The kernel ends it only when it finds the time; reading on would let
        it get further meanwhile, instead of being held up by a full pipe.
        """
        if self._seen.ending is None:
            self._seen.ending, self._seen.reason = ending, reason
        for descriptor in (self._ends.stdout, self._ends.stderr):
            if descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)
        self._kill()

    def _exited(self, _: int) -> None:
        self._gone = True
        self._selector.unregister(self._ends.exited)

    def _read_stdout(self, _: int) -> None:
        self._read(self._ends.stdout, self._seen.stdout, "standard output")

    def _read_stderr(self, _: int) -> None:
        self._read(self._ends.stderr, self._seen.stderr, "standard error")

    def _read(self, descriptor: int, kept: bytearray, name: str) -> None:
        data = os.read(descriptor, CHUNK)
        if not data:
            self._selector.unregister(descriptor)
            return
        room = self._limits.output_bytes - len(kept)
        kept += data[:room]
        if len(data) > room:
            self._end(Ending.OUTPUT, f"more than {self._limits.output_bytes} bytes on {name}")

    def _send_control(self, orders: bytes) -> None:
        self._orders += orders
        self._selector.modify(self._ends.control, selectors.EVENT_READ | selectors.EVENT_WRITE, self._read_control)

    def _read_control(self, events: int) -> None:
        """The launcher's few words. The job cannot write here."""
        control = self._ends.control
        if events & selectors.EVENT_WRITE:
            try:
                del self._orders[: control.send(self._orders)]
            except BlockingIOError:
                return
            except OSError:
                self._orders.clear()
            if not self._orders:
                self._selector.modify(control, selectors.EVENT_READ, self._read_control)
        if events & selectors.EVENT_READ:
            data = _received(control)
            if data == b"":
                self._selector.unregister(control)
            elif data and len(self._control_text) < CHUNK:
                self._control_text += data

    def _queue(self, data: bytes) -> None:
        self._outgoing += data
        if self._outgoing and self._ends.broker is not None:
            self._selector.modify(self._ends.broker, selectors.EVENT_READ | selectors.EVENT_WRITE, self._talk)

    def _talk(self, events: int) -> None:
        broker, conversation = self._ends.broker, self._ends.conversation
        if broker is None or conversation is None:
            return
        if events & selectors.EVENT_WRITE:
            self._flush(broker)
        if events & selectors.EVENT_READ:
            data = _received(broker)
            if data == b"":
                self._selector.unregister(broker)
            elif data and self._seen.ending is None:
                try:
                    with self._kept_in_time(conversation):
                        reply = conversation.receive(data)
                    self._queue(reply)
                except ProtocolViolation as violation:
                    self._end(Ending.PROTOCOL, str(violation))

    @contextmanager
    def _kept_in_time(self, conversation: Conversation) -> Iterator[None]:
        """While a tool may take its time, nobody looks at the clock here: a thread ends the job when it is due."""
        if conversation.instant or conversation.job_is_over:
            yield
            return
        guard = threading.Timer(max(0.0, self._deadline - time.monotonic()), self._expire)
        guard.daemon = True
        guard.start()
        try:
            yield
        finally:
            guard.cancel()
            guard.join()

    def _expire(self) -> None:
        self._overdue = time.monotonic() - self._deadline <= LATE_SECONDS
        self._kill()

    def _flush(self, broker: socket.socket) -> None:
        try:
            del self._outgoing[: broker.send(self._outgoing)]
        except BlockingIOError:
            return
        except OSError:  # the job closed its end; what it sent before can still be read
            self._outgoing.clear()
        if not self._outgoing:
            self._selector.modify(broker, selectors.EVENT_READ, self._talk)

    def _close_conversation(self) -> None:
        if self._ends.conversation is None or self._seen.ending is not None:
            return
        try:
            self._ends.conversation.close()
        except ProtocolViolation as violation:
            self._seen.ending, self._seen.reason = Ending.PROTOCOL, str(violation)


def _received(channel: socket.socket) -> bytes | None:
    """What has arrived: empty when the other end is closed, None when there is nothing yet."""
    try:
        return channel.recv(CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _end(said: str) -> tuple[str, int] | None:
    """The launcher's last line."""
    words = said.splitlines()[-1].split() if said.endswith("\n") else []
    match words:
        case ["exit" | "signal" as how, number] if number.isdigit():
            return how, int(number)
        case ["memory" | "cpu" | "files" as how]:
            return how, 0
    return None
