"""Recall: finds the right pages, says how sure it is, and never finds what it must not."""

from instar.memstore.recall.ahead import Ahead
from instar.memstore.recall.answers import Answer, Filters, Hit, IndexState, Status
from instar.memstore.recall.embedders import Embedder, embedder_of
from instar.memstore.recall.errors import EmbedderFailed, IndexBusy, IndexFailed, IndexHeld, RecallError
from instar.memstore.recall.links import Link, Relation, link_draft
from instar.memstore.recall.opening import open_recall
from instar.memstore.recall.recall import Recall

__all__ = [
    "Ahead",
    "Answer",
    "Embedder",
    "EmbedderFailed",
    "Filters",
    "Hit",
    "IndexBusy",
    "IndexFailed",
    "IndexHeld",
    "IndexState",
    "Link",
    "Recall",
    "RecallError",
    "Relation",
    "Status",
    "embedder_of",
    "link_draft",
    "open_recall",
]
