"""Recall for a session that is recorded: opened beside its store, and given back before it."""

from __future__ import annotations

from collections.abc import Sequence

from instar.core.live import project_scope
from instar.core.recall import recall_beside
from instar.core.runtime import Runtime
from instar.core.settings import Settings
from instar.memstore import Principal, Store
from instar.memstore.recall import Ahead, Recall
from instar.memstore.recall.recall import PATIENCE


def open_foresight(
    settings: Settings, store: Store, by: Principal, *, project: str, session: str, task: str, topics: Sequence[str]
) -> tuple[Recall, Ahead]:
    """Foresight over what is known of a project, and the recall that it uses, which the caller closes.

    Raises:
        InstarError: recall cannot be used as it is configured.
        MemstoreError: the index can neither be opened nor made.
    """
    recall = recall_beside(Runtime(settings, store), patience=PATIENCE)  # an agent waits for it
    scope = project_scope(settings.scope, project)
    return recall, Ahead(recall, by, scope=scope, session=session, task=task, topics=topics)
