"""Every way in which recall says no. A failure of an index never looks like an empty answer.

MemstoreError
└── RecallError
    ├── IndexHeld          another process owns the index
    ├── IndexFailed        the index cannot be read or written; it is derived and can be rebuilt
    │   ├── IndexBusy          another process is bringing it up to date
    │   └── IndexNotPermitted  the operating system refuses its folder or one of its files
    ├── EmbedderFailed     texts could not be turned into vectors
    └── RerankerFailed     hits could not be put into another order
"""

from __future__ import annotations

from instar.memstore.errors import MemstoreError

_FULL = ("disk is full", "no space is left", "No space left on device", "quota exceeded")
_ROOM = "free some space and try again; the index then goes on where it was"


class RecallError(MemstoreError):
    """Base of what recall raises on purpose."""


class IndexHeld(RecallError):
    """Another process owns the vector index; only one may open it."""

    def __init__(self, folder: str, owner: str) -> None:
        self.folder, self.owner = folder, owner
        super().__init__(folder, owner)

    def __str__(self) -> str:
        return f"{self.folder}: in use by {self.owner or 'another process'}; wait for it, or use its server"


class IndexFailed(RecallError):
    """The index cannot be read or written. Nothing of the store is lost with it."""

    remedy = "`instar reindex` builds it anew from the store"

    def __init__(self, location: str, reason: str) -> None:
        self.location, self.reason = location, reason
        super().__init__(location, reason)

    def __str__(self) -> str:
        # Told by its words: an index in another process or on a server says no more than that.
        full = any(words in self.reason for words in _FULL)
        return f"{self.location}: {self.reason}; {_ROOM if full else self.remedy}"


class IndexBusy(IndexFailed):
    """Another process, or another thread of this one, is bringing the index up to date."""

    remedy = "wait for it, and try again"

    def __init__(self, location: str, writer: str = "") -> None:
        self.writer = writer or "another process"
        super().__init__(location, f"{self.writer} is bringing the index up to date")


class IndexNotPermitted(IndexFailed):
    """The operating system refuses the folder of the index or one of its files."""

    remedy = "let this user read and write it and its folder, or move it away: it is made anew from the store"


class EmbedderFailed(RecallError):
    """The embedder gave no vectors, or not those that it promised."""

    def __init__(self, embedder: str, reason: str) -> None:
        self.embedder, self.reason = embedder, reason
        super().__init__(embedder, reason)

    def __str__(self) -> str:
        return f"embedder {self.embedder!r}: {self.reason}; check the setting `embedder`"


class RerankerFailed(RecallError):
    """The reranker gave no scores, or not those that it promised; the order stays as it was."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return f"without reranking: {self.reason}"
