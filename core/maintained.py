"""What maintenance reports. Apart from the work itself, so that whoever shows a report need not load the index."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict


class MaintainReport(BaseModel):
    """What a run of maintenance did."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    expired: int = 0
    """Pages past their time, whose content was erased."""
    compared: int = 0
    same: int = 0
    """Links between pages that say the same."""
    contradictions: list[str] = []
    """The first of the new contradictions, as `newer: older`."""
    contradictions_found: int = 0
    summaries: int = 0
    archived: int = 0
    """Pages that a summary stands for now; they stay readable by id."""
    details_before: datetime | None = None
    """The single steps from before this time are not in the index."""
    indexed: int = 0
    vectors: int = 0
    index_lag: int = 0
    dry_run: bool = False
    failed: str = ""
    """Why it was not done, where it was not; the next night does it."""
    trouble: list[str] = []
    """What could not be done, and why; the next run tries again."""
