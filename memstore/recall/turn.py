"""Whose turn it is to bring an index up to date: one process does so for all, and in it one thread.

Who searches need not wait for it: what another one is bringing in will be there the next time.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from instar.memstore.recall.errors import IndexBusy, IndexNotPermitted

_PAUSE = 0.01


class FileTurn:
    """A turn by a lock on a file, which the system gives back when a process ends; by threads alone where the path is
    None.

    Raises:
        IndexNotPermitted: the system refuses the file.
    """

    def __init__(self, path: Path | None) -> None:
        self._path, self._threads = path, threading.Lock()

    @contextmanager
    def taken(self, within: float) -> Iterator[None]:
        """Hold the turn while the block runs.

        Raises:
            IndexBusy: others had it for so many seconds.
        """
        end = time.monotonic() + within
        if not self._threads.acquire(timeout=max(within, 0.0)):
            raise IndexBusy(str(self._path or "memory"))
        try:
            if self._path is None:
                yield
                return
            try:
                file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                raise IndexNotPermitted(str(self._path), str(error)) from error
            try:
                try:
                    wait_for(lambda: _locked(file), end, str(self._path))
                except IndexBusy as error:
                    writer = os.pread(file, 100, 0).decode(errors="replace").strip()
                    raise IndexBusy(str(self._path), writer) from error
                with suppress(OSError):  # a name for those who wait; on a full disk there is none
                    os.ftruncate(file, 0)
                    os.pwrite(file, f"process {os.getpid()}\n".encode(), 0)
                yield
            finally:
                os.close(file)
        finally:
            self._threads.release()


def wait_for(free: Callable[[], bool], end: float, location: str) -> None:
    """Ask again and again until it is free.

    Raises:
        IndexBusy: it is not by that time of the monotonic clock.
    """
    while not free():
        if time.monotonic() >= end:
            raise IndexBusy(location)
        time.sleep(_PAUSE)


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
