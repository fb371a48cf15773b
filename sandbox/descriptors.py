"""Descriptors for one job: which are ours, which the sandbox inherits, and when each is closed."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack


class Descriptors:
    """What a started program inherits, and this process's other ends.

    `ours` closes this process's ends when the job is over; `theirs` closes the inherited ends as soon as the program
    has started, so that a channel ends when the job does.
    """

    def __init__(self, ours: ExitStack, theirs: ExitStack) -> None:
        self._ours, self._theirs = ours, theirs
        self.inherited: list[int] = []

    def inherit(self, descriptor: int) -> int:
        """Take charge of a descriptor that the program inherits."""
        self._theirs.callback(os.close, descriptor)
        self.inherited.append(descriptor)
        return descriptor

    def lend(self, descriptor: int) -> int:
        """Let the program inherit a descriptor that stays someone else's."""
        self.inherited.append(descriptor)
        return descriptor

    def data(self, content: bytes) -> int:
        """Content in memory, for the program to read from the start."""
        descriptor = self.inherit(os.memfd_create("instar", os.MFD_CLOEXEC))
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def channel(self) -> tuple[socket.socket, int]:
        """A socket pair: our end, and the inherited one."""
        outside, inside = socket.socketpair()
        self._ours.callback(outside.close)
        return outside, self.inherit(inside.detach())

    def from_program(self) -> tuple[int, int]:
        """A pipe that the program writes to: our end, and the inherited one."""
        reading, writing = os.pipe()
        self._ours.callback(os.close, reading)
        return reading, self.inherit(writing)
