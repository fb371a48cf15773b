"""Vectors in Chroma: embedded under an exclusive lock, or on one server. One collection for each scope root.

An embedded Chroma that two processes open loses and resurrects vectors without a word, so only the holder of the lock
opens it. Chroma gets vectors that are computed here, sends nothing anywhere and fetches nothing. The vectors are also
kept in a file, from which a lost or damaged collection is filled again, and which answers exactly among few.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from instar.memstore.recall.errors import IndexFailed, IndexHeld
from instar.memstore.recall.index import Matrix, Seqs, Vectors
from instar.memstore.recall.vector_file import VectorFile

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.collection_configuration import CreateCollectionConfiguration

_AT_ONCE = 2_000
_LEFT_ALONE = 10.0
"""Seconds."""
_GRAPH: CreateCollectionConfiguration = {
    "hnsw": {"space": "cosine", "ef_construction": 100, "max_neighbors": 16, "ef_search": 100}
}


class OwnerLock:
    """The right to open the folder of an index. The system gives it back when the process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = os.open(folder / "owner.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.pread(self._file, 100, 0).decode(errors="replace").strip()
            os.close(self._file)
            raise IndexHeld(str(folder), owner) from error
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"process {os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let another process have it. Releasing twice is fine."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class ChromaVectors:
    """Vectors of one embedder. Chroma is opened when it is first needed: exact search among few does without it."""

    def __init__(self, source: ClientSource, file: VectorFile, embedder: str) -> None:
        self._source, self._file = source, file
        source.attach()
        self._open = True
        self._suffix = suffix_of(embedder)
        self._collections: dict[str, Any] = {}
        self._sound: set[str] = set()
        """Roots whose collection was seen to hold all that the file holds."""

    def put(self, root: str, vectors: Vectors) -> None:
        """Into the file and the collection."""
        if not len(vectors.seqs):
            return
        self._file.put(root, vectors)
        self._upsert(root, vectors)

    def take(self, root: str, seqs: Collection[int]) -> None:
        """Out of both."""
        if not seqs:
            return
        held = self._file.of(root, seqs).seqs
        with self._translated():
            collection = self._collection(root)
            ids = [str(seq) for seq in held]
            for at in range(0, len(ids), _AT_ONCE):
                collection.delete(ids=ids[at : at + _AT_ONCE])
        self._file.take(seqs)

    def nearest(self, root: str, vector: Matrix, limit: int) -> Seqs:
        """By Chroma's HNSW graph."""
        with self._translated():
            collection = self._collection(root)
            if root not in self._sound:
                if collection.count() != self._file.count_of(root):
                    raise IndexFailed(self._source.location, "a collection is stale or half-built")
                self._sound.add(root)
            found = collection.query(query_embeddings=[vector], n_results=limit, include=[])["ids"][0]
        return np.fromiter((int(name) for name in found), np.int64, len(found))

    def of(self, root: str, seqs: Collection[int]) -> Vectors:
        """From the file."""
        return self._file.of(root, seqs)

    def count(self) -> int:
        """How many vectors Chroma holds."""
        with self._translated():
            return sum(self._collection(root).count() for root in self._file.counts())

    def through(self) -> int:
        """As the file remembers."""
        return self._file.through()

    def advance(self, through: int) -> None:
        """Remember it in the file, after both hold the vectors."""
        self._file.advance(through)

    def repair(self) -> int:
        """Make collections anew that do not hold as many vectors as the file."""
        with self._translated():
            counts = self._file.counts()
            damaged = [root for root, count in counts.items() if self._collection(root).count() != count]
        for root in damaged:
            self._refill(root)
        return len(damaged)

    def _refill(self, root: str) -> None:
        with self._translated():
            self._drop(self._name(root))
        self._collections.pop(root, None)
        after = 0
        while len((part := self._file.page(root, after, _AT_ONCE)).seqs):
            self._upsert(root, part)
            after = int(part.seqs[-1])

    def clear(self) -> None:
        """Drop the collections of this embedder, and the vectors in the file."""
        with self._translated():
            for collection in self._source.client().list_collections():
                if collection.name.endswith(f"-{self._suffix}"):
                    self._drop(collection.name)
        self._collections.clear()
        self._sound.clear()
        self._file.clear()

    def close(self) -> None:
        """Close the file, and let go of Chroma."""
        if self._open:
            self._open = False
            self._file.close()
            self._source.close()

    def _upsert(self, root: str, vectors: Vectors) -> None:
        with self._translated():
            collection = self._collection(root)
            for at in range(0, len(vectors.seqs), _AT_ONCE):
                part = vectors.matrix[at : at + _AT_ONCE]
                collection.upsert(ids=[str(seq) for seq in vectors.seqs[at : at + _AT_ONCE]], embeddings=part)

    def _collection(self, root: str) -> Any:
        if root not in self._collections:
            self._collections[root] = self._source.client().get_or_create_collection(
                self._name(root), embedding_function=None, configuration=_GRAPH
            )
        return self._collections[root]

    def _name(self, root: str) -> str:
        # The name of a root may be longer, shorter, or of other characters than Chroma takes.
        return f"root-{hashlib.sha256(root.encode()).hexdigest()[:24]}-{self._suffix}"

    def _drop(self, name: str) -> None:
        from chromadb.errors import NotFoundError  # noqa: PLC0415

        try:
            self._source.client().delete_collection(name)
        except NotFoundError:
            return

    @contextmanager
    def _translated(self) -> Iterator[None]:
        from chromadb.errors import ChromaError  # noqa: PLC0415

        try:
            yield
        except (ChromaError, OSError, ValueError, RuntimeError) as error:
            raise IndexFailed(self._source.location, f"{type(error).__name__}: {error}"[:300]) from error


class ClientSource:
    """Chroma, on first use: the server where there is one, else embedded, with the lock on its folder.

    Several indexes of one process share one, and the last that closes it lets go.

    Raises on use:
        IndexHeld: another process has it embedded.
        IndexFailed: it cannot be opened, or the server does not answer.
    """

    def __init__(self, folder: Path, server: str = "") -> None:
        self._folder, self._server = folder, server
        self.location = server or str(folder)
        self._client: ClientAPI | None = None
        self._held: OwnerLock | None = None
        self._users = 0
        self._failed: tuple[float, IndexFailed] | None = None

    def attach(self) -> None:
        """One more that will close it."""
        self._users += 1

    def client(self) -> ClientAPI:
        """Chroma's client, the same one every time; a server that did not answer is left alone for a while."""
        if self._client is None:
            if self._failed is not None and time.monotonic() < self._failed[0]:
                raise self._failed[1]
            if self._server:
                host, _, port = self._server.removeprefix("http://").rstrip("/").rpartition(":")
                try:
                    self._client = server_client(host, int(port) if port.isdecimal() else 0)
                except IndexFailed as error:
                    self._failed = (time.monotonic() + _LEFT_ALONE, error)
                    raise
            else:
                held = OwnerLock(self._folder)
                try:
                    self._client = embedded_client(self._folder)
                except BaseException:
                    held.release()
                    raise
                self._held = held
        return self._client

    def close(self) -> None:
        """Let go of Chroma and its folder, when nobody else uses them here."""
        self._users -= 1
        if self._users > 0:
            return
        client, self._client = self._client, None
        if client is not None:
            from chromadb.api.client import Client  # noqa: PLC0415

            if isinstance(client, Client):
                client.close()
        if self._held is not None:
            self._held.release()
            self._held = None


def suffix_of(embedder: str) -> str:
    """A short name of an embedder, for files and collections."""
    return hashlib.sha256(embedder.encode()).hexdigest()[:8]


def embedded_client(folder: Path) -> ClientAPI:
    """Chroma in this process, on a folder whose lock is held.

    Raises:
        IndexFailed: the folder does not hold a sound Chroma database.
    """
    import chromadb  # noqa: PLC0415  (takes most of a second)
    from chromadb.config import Settings  # noqa: PLC0415
    from chromadb.errors import ChromaError  # noqa: PLC0415

    try:
        return chromadb.PersistentClient(folder, settings=Settings(anonymized_telemetry=False))
    except (ChromaError, OSError, ValueError, RuntimeError) as error:
        raise IndexFailed(str(folder), f"{type(error).__name__}: {error}"[:300]) from error


def server_client(host: str, port: int) -> ClientAPI:
    """Chroma on a server, which many processes may use.

    Raises:
        IndexFailed: no server answers there.
    """
    import chromadb  # noqa: PLC0415
    from chromadb.config import Settings  # noqa: PLC0415
    from chromadb.errors import ChromaError  # noqa: PLC0415

    try:
        client = chromadb.HttpClient(host, port, settings=Settings(anonymized_telemetry=False))
        client.heartbeat()
    except (ChromaError, OSError, ValueError, RuntimeError) as error:
        raise IndexFailed(f"{host}:{port}", f"{type(error).__name__}: {error}"[:300]) from error
    return client
