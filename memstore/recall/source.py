"""Where the graphs of a folder are, found without configuration: at their owner, or in this process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from instar.memstore.recall.errors import IndexFailed
from instar.memstore.recall.graphs import Graphs, embedded_graphs, server_graphs
from instar.memstore.recall.owner import OwnerLock, awaited, wanted
from instar.memstore.recall.wire import DistantGraphs, connect

_LEFT_ALONE = 10.0
"""Seconds."""


class GraphSource:
    """Graphs, on first use: at Chroma's server where one is named, at the process that owns the folder where one
    answers, else in this process, with the lock on the folder.

    Several indexes of one process share one, and the last that closes it lets go.

    Raises on use:
        IndexHeld: another process has the folder for itself.
        IndexFailed: it cannot be opened, or the server does not answer.
    """

    def __init__(self, folder: Path, server: str = "") -> None:
        self._folder, self._server = folder, server
        self.location = server or str(folder)
        self._graphs: Graphs | None = None
        self._held: OwnerLock | None = None
        self._users = self._busy = 0
        self._failed: tuple[float, IndexFailed] | None = None
        self._opening = Lock()

    def attach(self) -> None:
        """One more that will close it."""
        self._users += 1

    @contextmanager
    def graphs(self) -> Iterator[Graphs]:
        """The graphs, wherever they are now; they stay open as long as the block lasts."""
        with self._opening:
            if not self._busy and self._elsewhere():
                self._let_go()
            if self._graphs is None:
                self._graphs = self._at_server() if self._server else self._in_folder()
            graphs = self._graphs
            self._busy += 1
        try:
            yield graphs
        finally:
            with self._opening:
                self._busy -= 1

    def _elsewhere(self) -> bool:
        """Whether the owner that was asked ended, or one that serves all wants the folder that is held here."""
        if isinstance(self._graphs, DistantGraphs):
            return self._graphs.lost
        return self._held is not None and wanted(self._folder)

    def close(self) -> None:
        """Let go of the graphs and their folder, when nobody else uses them here."""
        self._users -= 1
        if self._users <= 0:
            with self._opening:
                self._let_go()

    def _at_server(self) -> Graphs:
        """A server that did not answer is left alone for a while."""
        if self._failed is not None and time.monotonic() < self._failed[0]:
            raise self._failed[1]
        host, _, port = self._server.removeprefix("http://").rstrip("/").rpartition(":")
        try:
            return server_graphs(host, int(port) if port.isdecimal() else 0)
        except IndexFailed as error:
            self._failed = (time.monotonic() + _LEFT_ALONE, error)
            raise

    def _in_folder(self) -> Graphs:
        connection = connect(self._folder) or (awaited(self._folder) if wanted(self._folder) else None)
        if connection is not None:
            return DistantGraphs(self._folder, connection)
        held = OwnerLock(self._folder)
        try:
            graphs = embedded_graphs(self._folder)
        except BaseException:
            held.release()
            raise
        self._held = held
        return graphs

    def _let_go(self) -> None:
        if self._graphs is not None:
            self._graphs.close()
            self._graphs = None
        if self._held is not None:
            self._held.release()
            self._held = None
