"""Markdown artifacts for the Prefect UI."""

from __future__ import annotations

import re

from prefect.artifacts import create_markdown_artifact
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
    if len(markdown) > MAX_CHARACTERS:
        markdown = markdown[:MAX_CHARACTERS] + "\n\n… cut here; the page in the store is complete."
    create_markdown_artifact(markdown, key=artifact_key(key), description=description)


def artifact_key(text: str) -> str:
    """A key as Prefect wants it: lower case, digits and single dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
