"""Ids of documents that depend on all of their content: the same content has the same id, other content another."""

from __future__ import annotations

import hashlib
import json
from typing import TypeVar

from instar.engine.documents import Document

AnyDocument = TypeVar("AnyDocument", bound=Document)


def identified(document: AnyDocument, kind: str) -> AnyDocument:
    """The document with the id `kind-<digest of everything else in it>`."""
    unsaid = {"id"} if document.made_by else {"id", "made_by"}
    content = json.dumps(document.model_dump(mode="json", exclude=unsaid), sort_keys=True)
    digest = hashlib.sha256(content.encode()).hexdigest()
    return document.model_copy(update={"id": f"{kind}-{digest[:16]}"})
