"""HNSW graphs of vectors by their names, in Chroma: in this process, or on a server of Chroma's own.

Chroma gets vectors that are computed here, sends nothing anywhere and fetches nothing.
"""

from __future__ import annotations

import http.client
import os
import shutil
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from instar.memstore.recall.errors import IndexFailed, IndexNotPermitted
from instar.memstore.recall.index import PATIENT, Matrix, Seqs

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.collection_configuration import CreateCollectionConfiguration

_AT_ONCE = 2_000
_SILENCE, _WORK = 10.0, 60.0
"""Seconds after which a server has failed that gives no sign of life, and one that was asked for something."""
_DATABASE = "chroma.sqlite3"
_TABLES = frozenset({"collections", "segments", "embeddings_queue"})
"""Tables without which Chroma opens its database, and then answers nothing."""
_GRAPH: CreateCollectionConfiguration = {
    "hnsw": {"space": "cosine", "ef_construction": 64, "max_neighbors": 16, "ef_search": 100}
}


class Graphs(Protocol):
    """Named graphs. One that was never put anything into is empty. Each call is idempotent. A process that keeps them
    is waited for no longer than about `within` seconds; graphs in this process take as long as they take.

    Raises:
        IndexFailed: they cannot be read or written.
    """

    def names(self) -> list[str]:
        """The graphs that there are."""
        ...

    def count(self, name: str) -> int:
        """How many vectors a graph holds."""
        ...

    def put(self, name: str, seqs: Seqs, matrix: Matrix, *, within: float = PATIENT) -> None:
        """Add vectors, or replace those of the same documents."""
        ...

    def take(self, name: str, seqs: Collection[int], *, within: float = PATIENT) -> None:
        """Take out the vectors of documents."""
        ...

    def nearest(self, name: str, vector: Matrix, limit: int) -> Seqs:
        """Documents by cosine similarity, approximately, the most similar first."""
        ...

    def drop(self, name: str) -> None:
        """Let go of a graph with all its vectors."""
        ...

    def close(self) -> None:
        """Give back connections and files. Closing twice is fine."""
        ...


class ChromaGraphs:
    """Graphs of a Chroma client. Threads may share it."""

    def __init__(self, client: ClientAPI, location: str) -> None:
        self._client, self._location = client, location
        self._collections: dict[str, Any] = {}

    def names(self) -> list[str]:
        """As Chroma lists them."""
        with self._translated():
            return [collection.name for collection in self._client.list_collections()]

    def count(self, name: str) -> int:
        """As Chroma counts."""
        with self._translated():
            return int(self._collection(name).count())

    def put(self, name: str, seqs: Seqs, matrix: Matrix, *, within: float = PATIENT) -> None:
        """In portions that Chroma takes."""
        with self._translated():
            collection = self._collection(name)
            for at in range(0, len(seqs), _AT_ONCE):
                part = seqs[at : at + _AT_ONCE]
                collection.upsert(ids=[str(seq) for seq in part], embeddings=matrix[at : at + _AT_ONCE])

    def take(self, name: str, seqs: Collection[int], *, within: float = PATIENT) -> None:
        """In portions that Chroma takes."""
        ids = [str(seq) for seq in seqs]
        with self._translated():
            collection = self._collection(name)
            for at in range(0, len(ids), _AT_ONCE):
                collection.delete(ids=ids[at : at + _AT_ONCE])

    def nearest(self, name: str, vector: Matrix, limit: int) -> Seqs:
        """By the graph."""
        with self._translated():
            collection = self._collection(name)
            found = collection.query(query_embeddings=[vector], n_results=limit, include=[])["ids"][0]
        return np.fromiter((int(seq) for seq in found), np.int64, len(found))

    def drop(self, name: str) -> None:
        """One that is not there is dropped already."""
        from chromadb.errors import NotFoundError  # noqa: PLC0415

        self._collections.pop(name, None)
        with self._translated():
            try:
                self._client.delete_collection(name)
            except NotFoundError:
                return

    def close(self) -> None:
        """Let go of Chroma."""
        from chromadb.api.client import Client  # noqa: PLC0415

        self._collections.clear()
        if isinstance(self._client, Client):
            self._client.close()

    def _collection(self, name: str) -> Any:
        if name not in self._collections:
            self._collections[name] = self._client.get_or_create_collection(
                name, embedding_function=None, configuration=_GRAPH
            )
        return self._collections[name]

    @contextmanager
    def _translated(self) -> Iterator[None]:
        from chromadb.errors import ChromaError  # noqa: PLC0415

        try:
            yield
        except (ChromaError, OSError, ValueError, RuntimeError) as error:
            raise IndexFailed(self._location, f"{type(error).__name__}: {error}"[:300]) from error


def embedded_graphs(folder: Path) -> ChromaGraphs:
    """Chroma in this process, on a folder whose lock is held; a damaged database is derived data, and is made anew.

    Raises:
        IndexFailed: the folder cannot be used.
    """
    # Looked at before Chroma does: it keeps, for the life of the process, what it could not open.
    for place in (folder, folder / _DATABASE):
        if os.path.exists(place) and not os.access(place, os.R_OK | os.W_OK):  # noqa: PTH110  (never raises)
            raise IndexNotPermitted(str(place), "this user may not read and write it")
    if not _sound(folder / _DATABASE):
        for left in folder.iterdir():
            if left.is_dir():
                shutil.rmtree(left)
            elif left.name.startswith(_DATABASE):
                left.unlink()
    import chromadb  # noqa: PLC0415  (takes most of a second)
    from chromadb.config import Settings  # noqa: PLC0415
    from chromadb.errors import ChromaError  # noqa: PLC0415

    try:
        client = chromadb.PersistentClient(folder, settings=Settings(anonymized_telemetry=False))
    except (ChromaError, OSError, ValueError, RuntimeError, AttributeError) as error:
        # Cleaning up after a failure, Chroma fails for a missing attribute, and hides what it was.
        cause = (isinstance(error, AttributeError) and error.__context__) or error
        raise IndexFailed(str(folder), f"{type(cause).__name__}: {cause}"[:300]) from error
    return ChromaGraphs(client, str(folder))


def _sound(database: Path) -> bool:
    if not database.exists():
        return True
    with closing(sqlite3.connect(database)) as connection:
        try:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        except sqlite3.OperationalError:  # locked, or out of reach: that says nothing of its content
            return True
        except sqlite3.DatabaseError:
            return False
    return not tables or tables >= _TABLES


def server_graphs(host: str, port: int) -> ChromaGraphs:
    """Chroma on a server of its own, which many processes may use.

    Raises:
        IndexFailed: no server answers there.
    """
    import chromadb  # noqa: PLC0415
    from chromadb.config import Settings  # noqa: PLC0415
    from chromadb.errors import ChromaError  # noqa: PLC0415

    location = f"{host}:{port}"
    try:
        _greet(host, port)
        client = chromadb.HttpClient(host, port, settings=Settings(anonymized_telemetry=False))
        graphs = _ServedGraphs(client, location)
        client.heartbeat()
    except (ChromaError, OSError, ValueError, RuntimeError) as error:
        raise IndexFailed(location, f"{type(error).__name__}: {error}"[:300]) from error
    return graphs


class _ServedGraphs(ChromaGraphs):
    """Over HTTP. Chroma's client waits without end, takes no setting for it, and leaves its connections open."""

    def __init__(self, client: ClientAPI, location: str) -> None:
        super().__init__(client, location)
        asking: tuple[Any, Any] = (client, getattr(client, "_admin_client"))  # noqa: B009
        self._sessions = {id(each._server._session): each._server._session for each in asking}
        for session in self._sessions.values():
            session.timeout = _WORK

    def close(self) -> None:
        super().close()
        for session in self._sessions.values():
            session.close()


def _greet(host: str, port: int) -> None:
    """Ask for a sign of life.

    Raises:
        OSError: there is none within a moment.
    """
    connection = http.client.HTTPConnection(host, port, timeout=_SILENCE)
    try:
        connection.request("GET", "/api/v2/heartbeat")
        connection.getresponse().read(1_000)
    except http.client.HTTPException as error:
        raise ConnectionError(f"what answers there is no server of Chroma: {error}") from error
    finally:
        connection.close()
