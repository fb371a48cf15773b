"""Markdown artifacts for the Prefect UI."""

from __future__ import annotations

import re
from uuid import UUID

from prefect.artifacts import acreate_markdown_artifact, create_markdown_artifact
from prefect.context import get_run_context
from prefect.exceptions import MissingContextError

MAX_CHARACTERS = 1_000_000
"""Longer Markdown is cut, with a note: the UI shows no more than a few megabytes well."""


def publish_artifact(key: str, markdown: str, description: str) -> None:
    """Attach Markdown to the current run. Outside a run there is nothing to attach it to, and nothing happens."""
    try:
        get_run_context()
    except MissingContextError:
        return
    create_markdown_artifact(_cut(markdown), key=artifact_key(key), description=description)


async def post_artifact(key: str, markdown: str, description: str) -> UUID:
    """As `publish_artifact`, from the body of a flow; returns the id of this version."""
    return await acreate_markdown_artifact(_cut(markdown), key=artifact_key(key), description=description)


def _cut(markdown: str) -> str:
    if len(markdown) <= MAX_CHARACTERS:
        return markdown
    return markdown[:MAX_CHARACTERS] + "\n\n… cut here; the page in the store is complete."


def artifact_key(text: str) -> str:
    """A key as Prefect wants it: lower case, digits and single dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
