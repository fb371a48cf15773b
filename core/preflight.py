"""What must be there before long work begins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from instar.core.runtime import runtime
from instar.core.settings import Settings
from instar.engine.importers import check_sources


def preflight(settings: Settings, paths: Sequence[Path], *, sandbox: bool = True, dry_run: bool = False) -> None:
    """Find a missing source, store or sandbox now, rather than after an hour of work. A dry run needs only sources.

    Raises:
        SourceError: a path cannot be read.
        SourceMissing: the home folder cannot be used.
        MemstoreError: the store cannot be opened.
        PartMissing: there is no sandbox.
    """
    check_sources(paths)
    with runtime(settings, dry_run=dry_run) as rt:
        if sandbox and not dry_run:
            rt.sandbox.probe()
