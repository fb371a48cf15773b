"""Opens recall beside a store: the index in a folder, or in the same PostgreSQL database as the pages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path

from instar.memstore.errors import InvalidRequest
from instar.memstore.recall.chroma_vectors import ChromaVectors, suffix_of
from instar.memstore.recall.derived_file import opened_or_anew
from instar.memstore.recall.embedders import Embedder, WordLlama, embedder_of
from instar.memstore.recall.errors import EmbedderFailed
from instar.memstore.recall.feed import Side
from instar.memstore.recall.recall import PATIENCE, Recall
from instar.memstore.recall.rerank import Reranker
from instar.memstore.recall.rules import Rewriter, rewrite
from instar.memstore.recall.source import GraphSource
from instar.memstore.recall.sqlite_words import SqliteWords
from instar.memstore.recall.upkeep import EMBEDDER
from instar.memstore.recall.vector_file import VectorFile
from instar.memstore.recall.verdicts import Verdicts
from instar.memstore.store import Store, utc_now

_POSTGRES = "postgresql+psycopg://"


def open_recall(
    store: Store,
    *,
    address: str,
    folder: Path | None,
    embedder: Embedder | None = None,
    server: str = "",
    reranker: Reranker | None = None,
    clock: Callable[[], datetime] = utc_now,
    patience: float = PATIENCE,
    verdicts: Callable[[], Verdicts] = dict,
    rewriter: Rewriter = rewrite,
) -> Recall:
    """Open the index of a store, making it where there is none. It is filled when it is first used.

    `address` is that of the store. Of a store in SQLite the index is in `folder` (None: in memory, without a graph),
    with its vectors in Chroma, embedded or at `server` (HOST:PORT). Of one in PostgreSQL it is in the database.
    `embedder` is by default the one that needs no network. A search spends up to `patience` seconds on catching up.
    `verdicts` tells what people said of pages and sessions; `rewriter` reads filters out of a query.

    Raises:
        InvalidRequest: the address has no meaning here.
        IndexFailed: the index cannot be opened, and not made anew either.
    """
    wanted = embedder or WordLlama()
    if address.startswith(_POSTGRES):
        from instar.memstore.recall.postgres import open_postgres  # noqa: PLC0415  (the driver is an extra)

        words, make = open_postgres(address)
    elif address == "memory:" or folder is None:
        words, make = SqliteWords(None), _in_memory
    elif address.startswith("sqlite:///"):
        source = GraphSource(folder / "chroma", server)
        words = opened_or_anew(folder / "words.db", SqliteWords)
        make = partial(_side, folder, source)
    else:
        raise InvalidRequest("recall needs the address of a store")
    serving, building, notices = wanted, None, []
    complete = words.settings().get(EMBEDDER)
    if complete is not None and complete != wanted.name:
        building = wanted
        try:
            serving = embedder_of(complete)
        except (EmbedderFailed, InvalidRequest):
            serving, building = wanted, None
        notices = [f"vectors of {wanted.name} are being made"]
    return Recall(
        store,
        words,
        make(serving),
        building=None if building is None else make(building),
        clock=clock,
        reranker=reranker,
        patience=patience,
        verdicts=verdicts,
        rewriter=rewriter,
        notices=notices if building is not None else (),
    )


def _side(folder: Path, source: GraphSource, embedder: Embedder) -> Side:
    file = opened_or_anew(folder / f"vectors-{suffix_of(embedder.name)}.db", VectorFile)
    return Side(embedder, ChromaVectors(source, file, embedder.name), file)


def _in_memory(embedder: Embedder) -> Side:
    from instar.memstore.recall.exact import ExactVectors  # noqa: PLC0415

    vectors = ExactVectors()
    return Side(embedder, vectors, vectors.file)
